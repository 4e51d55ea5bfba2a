"""Logs for those who operate the harness: events in the past tense, facts as keys, on standard error only.

The edges log; core and sandbox return values. No line holds policy source, a prompt or a secret.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

import structlog

if TYPE_CHECKING:
    from structlog.typing import Processor

Format: TypeAlias = Literal["console", "json"]


def configure(level: str, form: Format) -> None:
    """Send log lines of this level and above to standard error, for people or as one JSON object a line."""
    renderer: Processor
    if form == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        # Looked up for each line: whoever redirects standard error meanwhile gets the line.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
