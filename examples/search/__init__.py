"""A small search of real problems, run to record discovery trees: numpy and scipy, no model and no network."""
