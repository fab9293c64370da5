"""Two models of which one may be noisier, judged on the sales of two shops."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate_validation.quality.data.held_out import HeldOut
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.statistics.arrays import Floats

ROWS = 4000


def two_shops(noise: float = 0.3) -> tuple[HeldOut, Floats, Floats]:
    """Two shops, and the probabilities of two models of which the first has that much more noise."""
    random = np.random.default_rng(0)
    truth = random.normal(0, 1.5, ROWS)
    labels = (random.random(ROWS) < 1 / (1 + np.exp(-truth))).astype(np.float64)
    table = pa.table({"shop": random.choice(["web", "north"], ROWS)})
    mine, theirs = (1 / (1 + np.exp(-(truth + random.normal(0, spread, ROWS)))) for spread in (noise, 0.3))
    evaluation = Evaluation("binary", labels, np.arange(ROWS) % 40, ("0", "1"), clustered=False)
    return HeldOut(table, evaluation, "40 random buckets"), mine, theirs
