"""Run the command line: `harness …` or `python -m harness …`."""

import signal
import sys


def main() -> None:
    """Run one command and exit with its code."""
    # A stop from a supervisor unwinds as Ctrl-C does, so that containers and processes are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        from harness.cli.app import run  # noqa: PLC0415 - Ctrl-C during the import must not end in a traceback

        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
