"""The gate: is a candidate better than the incumbent on trees that neither has seen?

Pure: no I/O, no clock, no global random. `verdict` holds the records, `judge` decides, `document` writes a verdict down.
"""
