"""Commands: what they accept stands in `app`, what each does in a module of its own that is imported when it runs."""
