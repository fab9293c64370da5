"""The ROC curve beside a report: its points, and that an old one does not stay where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.metrics.roc import ROC_NAME, roc_curve, write_roc


def test_the_area_below_it_is_the_auc_and_it_stays_small() -> None:
    random = np.random.default_rng(1)
    scores = random.random(5000)
    positive = random.random(5000) < scores
    thresholds, false, true = roc_curve(positive, scores)
    assert len(thresholds) == len(false) == len(true) == 200
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert np.all(np.diff(thresholds) < 0)
    assert abs(np.trapezoid(true, false) - roc_auc_score(positive, scores)) < 0.005


def test_where_there_is_no_curve_an_old_one_goes(tmp_path: Path) -> None:
    labels, groups = np.array([0.0, 1.0, 1.0]), np.arange(3)
    binary = Evaluation(Task.BINARY, labels, groups)
    write_roc(binary, np.array([0.1, 0.9, 0.9]), tmp_path)
    document = json.loads((tmp_path / ROC_NAME).read_text())
    assert document["format"] == "tidegate.roc/1"
    assert document["true_positive_rates"] == [0, 1, 1]
    write_roc(Evaluation(Task.REGRESSION, labels, groups), labels, tmp_path)
    assert not (tmp_path / ROC_NAME).exists()
