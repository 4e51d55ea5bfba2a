"""Who makes the attempts of a live search: one contract (`base`), and a file for each implementation."""
