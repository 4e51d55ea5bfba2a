"""The live phase: a policy steers a real search, and what it finds becomes a discovery tree."""
