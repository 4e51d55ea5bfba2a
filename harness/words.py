"""How messages count things, wherever they are written."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 tree, 2,000 trees, 3 tries, 4 searches."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"
