"""The area under the ROC curve is scikit-learn's, ties and all."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tidegate_validation.quality.metrics.auc import auc_influence


def test_auc_is_scikit_learns_with_ties_and_all() -> None:
    random = np.random.default_rng(0)
    labels = (random.random(500) < 0.3).astype(np.float64)
    scores = np.round(random.random(500) + 0.3 * labels, 1)
    assert auc_influence(labels == 1, scores)[0] == pytest.approx(roc_auc_score(labels, scores))
    assert np.isnan(auc_influence(np.ones(5, dtype=bool), np.ones(5))[0])
