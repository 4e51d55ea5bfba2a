"""Improve scheduler policies by replaying recorded searches."""

__version__ = "0.1.0"
