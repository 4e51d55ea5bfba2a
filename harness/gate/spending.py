"""How the level is spent over looks at the same trees, so that asking often enough is no way to a promotion.

Look k at a tree may use alpha · 6 / (pi² · k²). The sum over endless looks is alpha, so by the union bound the chance of even one
false promotion on a tree stays at most alpha, whatever the looks have in common and whenever they end. That is alpha
spending (Lan & DeMets 1983) with a fixed sequence that sums to alpha, as in alpha investing (Foster & Stine 2008) and online
testing (Javanmard & Montanari 2018); held-out data that is asked again and again without such a budget stops being held out
(Dwork et al. 2015).
"""

from __future__ import annotations

import math


def level(alpha: float, look: int) -> float:
    """Return the level that look number `look` at a tree may use; the first is 1.

    Raises:
        ValueError: looks are counted from 1.
    """
    if look < 1:
        raise ValueError(f"look {look}: looks are counted from 1")
    return alpha * 6.0 / (math.pi**2 * look * look)
