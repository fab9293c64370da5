"""Labels with scores of every task, for tests of what is computed from them."""

from __future__ import annotations

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.statistics.arrays import Floats

ROWS = 1200


def two(seed: int = 0) -> tuple[Evaluation, Floats]:
    """Labels of two classes with honest probabilities, rounded so that there are ties."""
    random = np.random.default_rng(seed)
    chance = np.round(random.beta(1, 2, ROWS), 2)
    labels = (random.random(ROWS) < chance).astype(np.float64)
    return Evaluation("binary", labels, random.integers(0, 40, ROWS), ("0", "1")), chance


def many(seed: int = 0) -> tuple[Evaluation, Floats]:
    """Labels of four classes with probabilities, and a column for any other class."""
    random = np.random.default_rng(seed)
    scores = np.zeros((ROWS, 5))
    scores[:, :4] = random.dirichlet([2, 1, 1, 0.5], ROWS)
    labels = np.array([random.choice(4, p=row[:4]) for row in scores], dtype=np.float64)
    return Evaluation("multiclass", labels, random.integers(0, 40, ROWS), tuple("abcd")), scores


def numbers(seed: int = 0) -> tuple[Evaluation, Floats]:
    """Numbers with noisy predictions."""
    random = np.random.default_rng(seed)
    labels = random.normal(3, 2, ROWS)
    return Evaluation("regression", labels, random.integers(0, 40, ROWS)), labels + random.normal(0.2, 1, ROWS)


def queries(seed: int = 0) -> tuple[Evaluation, Floats]:
    """Sixty queries of twenty rows with relevances 0 to 3."""
    random = np.random.default_rng(seed)
    labels = random.choice(4, 1200, p=[0.7, 0.15, 0.1, 0.05]).astype(np.float64)
    scores = labels + random.normal(0, 1.5, 1200)
    return Evaluation("ranking", labels, np.arange(1200) // 20 % 40, queries=np.arange(1200) // 20), scores
