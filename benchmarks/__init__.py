"""Figures of the harness against a floor or a peer in the same run on the same machine. `python -m benchmarks` prints them."""
