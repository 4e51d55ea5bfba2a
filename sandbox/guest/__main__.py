"""Start the runner: `python -s -S -P -B sandbox/guest/__main__.py ARGUMENTS` (not `-I`: it would ignore PYTHONHASHSEED)."""

import gc
import sys

gc.disable()  # nearly all that is loaded stays: to look for what does not would be a tenth of the start
# Appended, never prepended: what lies beside this package must not stand in for a module of the standard library.
sys.path.append(__file__.rsplit("/", 3)[0])

from sandbox.guest.runner import main  # noqa: E402 - after the above

main(sys.argv[1:])
