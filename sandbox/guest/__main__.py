"""Start the runner: `python -s -S -P -B sandbox/guest/__main__.py ARGUMENTS` (not `-I`: it would ignore PYTHONHASHSEED)."""

import sys

# Appended, never prepended: what lies beside this package must not stand in for a module of the standard library.
sys.path.append(__file__.rsplit("/", 3)[0])

from sandbox.guest.runner import main

main(sys.argv[1:])
