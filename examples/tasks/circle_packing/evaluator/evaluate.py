"""Score a packing of 26 circles in the unit square: the sum of their radii, where no two overlap and none pokes out.

The numbers are taken as they stand, as fractions: a packing that is invalid in the last bit has no score. A solver's answer
therefore has to be shrunk a little before it is handed in; what that costs is far below what separates packings.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from answers import RefusedError, conclude, field, numbers, read_answer, shown

CIRCLES = 26
CONTACT = 1e-6  # a gap below this counts as one, in the metrics alone
SHAPE = 3

Circle = tuple[Fraction, Fraction, Fraction]


def circles_of(value: object) -> list[Circle]:
    """Return the circles that an answer lists."""
    if not isinstance(value, list) or len(value) != CIRCLES:
        count = len(value) if isinstance(value, list) else shown(value)
        raise RefusedError(f"'circles' must be a list of {CIRCLES} circles; this is {count}")
    found = []
    for place, row in enumerate(value):
        row_numbers = numbers(row, f"circle {place}")
        if len(row_numbers) != SHAPE:
            raise RefusedError(f"circle {place} holds {len(row_numbers)} numbers; it must hold x, y and radius")
        x, y, radius = map(Fraction, row_numbers)
        if radius < 0:
            raise RefusedError(f"circle {place} has the radius {row_numbers[2]}; none can be below 0")
        found.append((x, y, radius))
    return found


def refuse_outside(circles: list[Circle]) -> None:
    """Refuse a circle that leaves the square, by however little."""
    for place, (x, y, radius) in enumerate(circles):
        for wall, free in (("left", x - radius), ("bottom", y - radius), ("right", 1 - x - radius), ("top", 1 - y - radius)):
            if free < 0:
                raise RefusedError(f"circle {place} pokes out of the square at the {wall} by {figure(-free)}")


def refuse_overlap(circles: list[Circle]) -> None:
    """Refuse two circles that overlap, by however little."""
    for second, (x, y, radius) in enumerate(circles):
        for first, (other_x, other_y, other_radius) in enumerate(circles[:second]):
            distance_squared, sum_of_radii = (x - other_x) ** 2 + (y - other_y) ** 2, radius + other_radius
            if distance_squared < sum_of_radii**2:
                # (a^2 - b^2) / (a + b) is a - b without the loss that subtracting two rounded roots would bring.
                depth = (sum_of_radii**2 - distance_squared) / (sum_of_radii + Fraction(root(distance_squared)))
                raise RefusedError(f"circles {first} and {second} overlap by {figure(depth)}; move them apart or shrink both")


def root(value: Fraction) -> float:
    """Return the square root of a fraction, also where a float of it would vanish."""
    return math.sqrt(value) if value > sys.float_info.min else 0.0


def figure(value: Fraction) -> str:
    """Return a small positive fraction in three digits, also where a float of it would vanish or overflow."""
    try:
        return f"{float(value):.3g}" if float(value) > 0.0 else "less than 1e-300"
    except OverflowError:
        return "more than 1e300"


def judge() -> tuple[float, dict[str, float], str]:
    """Return score, metrics and feedback of the answer in the workspace."""
    circles = circles_of(field(read_answer(), "circles"))
    refuse_outside(circles)
    refuse_overlap(circles)
    rows = [(float(x), float(y), float(radius)) for x, y, radius in circles]
    score = math.fsum(radius for _, _, radius in rows)
    walls = [min(x, y, 1 - x, 1 - y) - radius for x, y, radius in rows]
    gaps = [
        math.hypot(x - other_x, y - other_y) - radius - other_radius
        for second, (x, y, radius) in enumerate(rows)
        for other_x, other_y, other_radius in rows[:second]
    ]
    at_walls, touching = sum(gap < CONTACT for gap in walls), sum(gap < CONTACT for gap in gaps)
    small = min(range(CIRCLES), key=lambda place: rows[place][2])
    x, y, radius = rows[small]
    metrics = {
        "contacts": touching + at_walls,
        "wall_contacts": at_walls,
        "min_radius": radius,
        "max_radius": max(row[2] for row in rows),
    }
    loose = sum(
        all(
            math.hypot(x - other_x, y - other_y) - radius - other_radius >= CONTACT
            for other, (other_x, other_y, other_radius) in enumerate(rows)
            if other != place
        )
        and walls[place] >= CONTACT
        for place, (x, y, radius) in enumerate(rows)
    )
    metrics["loose_circles"] = loose
    held = f"{touching + at_walls} contacts, {at_walls} of them with walls; {loose} circles touch nothing"
    smallest = f"the smallest circle is {small}, radius {radius:.6f} at ({x:.4f}, {y:.4f})"
    return score, metrics, f"Sum of radii {score:.9f}. {held}; {smallest}."


if __name__ == "__main__":
    conclude(judge)
