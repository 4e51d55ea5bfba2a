"""Snapshots of workspaces by content address: taken, restored exactly, shared where equal, removed when nobody needs them."""
