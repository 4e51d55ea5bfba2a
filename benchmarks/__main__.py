"""Print every figure: `python -m benchmarks [NAME …]`."""

from __future__ import annotations

import sys

from benchmarks import main_job, replay_core, sandboxed

FIGURES = {"replay_core": replay_core.rows, "sandboxed": sandboxed.rows, "main_job": main_job.rows}


def main() -> int:
    """Print the named figures, or all; return 1 when one misses what was wished for."""
    missed = 0
    for name in sys.argv[1:] or FIGURES:
        for row in FIGURES[name]():
            verdict = "" if row.met is None else ("met" if row.met else "MISSED")
            missed += row.met is False
            print(f"{row.name:70} {row.figure:>24}  {row.wish:>10}  {verdict}".rstrip(), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
