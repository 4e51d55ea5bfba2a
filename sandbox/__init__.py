"""Run untrusted policies and commands in isolation. Knows source code, limits and messages; nothing of trees or scores."""
