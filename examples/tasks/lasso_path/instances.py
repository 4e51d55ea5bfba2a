"""Write the instances of the task, `given/instances.json`.

Designs are whole numbers, so that nothing is lost in the file. Columns are correlated as an autoregressive process is: that is
where coordinate descent is slow.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

SEED = 20
ROWS, COLUMNS, USED = 36, 60, 8
CORRELATIONS = (0.3, 0.7, 0.9)
LAMBDAS = 10
SMALLEST = 0.02  # of the penalty from which on everything is 0
ACCURACY = 1e-6
SCALE = 100


def instance(rng: random.Random, correlation: float) -> dict[str, object]:
    """Return one regression problem and the penalties of its path, largest first."""
    rows = []
    for _ in range(ROWS):
        row = [rng.gauss(0.0, 1.0)]
        for _ in range(COLUMNS - 1):
            row.append(correlation * row[-1] + (1.0 - correlation**2) ** 0.5 * rng.gauss(0.0, 1.0))
        rows.append([round(SCALE * value) for value in row])
    used = rng.sample(range(COLUMNS), USED)
    weights = [rng.choice([-1, 1]) * rng.uniform(0.5, 3.0) for _ in used]
    y = [
        round(sum(weight * row[column] for weight, column in zip(weights, used, strict=True)) + SCALE * rng.gauss(0.0, 1.0))
        for row in rows
    ]
    largest = max(abs(sum(row[column] * value for row, value in zip(rows, y, strict=True))) for column in range(COLUMNS))
    lambdas = [round(largest * SMALLEST ** ((step + 1) / LAMBDAS)) for step in range(LAMBDAS)]
    return {"x": rows, "y": y, "lambdas": lambdas}


def text() -> str:
    """Return the file."""
    rng = random.Random(SEED)  # noqa: S311 - data of an example
    made = [instance(rng, correlation) for correlation in CORRELATIONS]
    return json.dumps({"accuracy": ACCURACY, "instances": made}, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "given" / "instances.json").write_text(text(), encoding="utf-8")
