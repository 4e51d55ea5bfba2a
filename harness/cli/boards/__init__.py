"""How leaderboards are shown: on a terminal, as Markdown, CSV, JSON, and as pictures."""
