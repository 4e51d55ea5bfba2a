"""The identity of a value of JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value of JSON, in hex, however its text is spaced and its keys are ordered."""
    canonical = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
