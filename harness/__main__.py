"""Run the command line: `harness …` or `python -m harness …`."""

import signal
import sys


def main() -> None:
    """Run one command and exit with its code."""
    try:
        # A stop from a supervisor unwinds as Ctrl-C does, so that containers and processes are removed.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        from harness.cli.app import run  # noqa: PLC0415 - Ctrl-C during the import must not end in a traceback

        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        code = run(sys.argv[1:])
        # All is done and said: one more Ctrl-C ends what the interpreter still does, without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:
        from harness.cli.exits import INTERRUPTED  # noqa: PLC0415 - as above

        sys.stderr.write(f"harness: {INTERRUPTED}\n")
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
