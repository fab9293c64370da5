"""The ROC curve of a model with two classes, as a file beside the report, for trackers that draw it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tidegate_serving.files import write_json
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.statistics.arrays import Floats, Mask

ROC_NAME = "roc.json"
_POINTS = 200


def write_roc(evaluation: Evaluation, scores: Floats, report: Path) -> None:
    """Writes `roc.json`, `tidegate.roc/1`, into the report's directory; takes an old one away where there is no curve,
    which is the case for any other task, and where all labels are the same.
    """
    path = report / ROC_NAME
    positives = int((evaluation.labels > 0).sum())
    if evaluation.task != Task.BINARY or scores.ndim != 1 or positives in (0, len(evaluation)):
        path.unlink(missing_ok=True)
        return
    thresholds, false, true = roc_curve(evaluation.labels > 0, scores)
    document = {
        "format": "tidegate.roc/1",
        "thresholds": thresholds.tolist(),
        "false_positive_rates": false.tolist(),
        "true_positive_rates": true.tolist(),
    }
    write_json(path, document)


def roc_curve(positive: Mask, scores: Floats) -> tuple[Floats, Floats, Floats]:
    """Thresholds, descending, with the shares of negatives and of positives that reach them; at most 200 points.

    The first point is (0, 0), at one more than the largest score; the last is (1, 1).
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hit = scores[order], positive[order]
    last = np.flatnonzero(np.append(np.diff(ranked) != 0, True))
    if len(last) > _POINTS - 1:
        last = last[np.linspace(0, len(last) - 1, _POINTS - 1).round().astype(np.int64)]
    true, false = np.cumsum(hit)[last] / hit.sum(), np.cumsum(~hit)[last] / (~hit).sum()
    return (
        np.concatenate([[float(ranked[0]) + 1.0], ranked[last].astype(np.float64)]),
        np.concatenate([[0.0], false]),
        np.concatenate([[0.0], true]),
    )
