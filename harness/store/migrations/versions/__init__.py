"""One module for each migration; a released one is never edited."""
