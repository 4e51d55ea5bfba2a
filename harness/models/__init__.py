"""Language models behind one small interface. Nothing is asked, and no client loaded, before the first call."""
