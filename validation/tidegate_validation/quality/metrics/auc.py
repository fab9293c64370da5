"""The area under the ROC curve with what its uncertainty takes: its value without each group, and each row's influence.

scikit-learn has the value alone; both come from ranks in one pass over the rows, however many groups there are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.jackknife import Replicates


def auc_replicates(positive: Mask, scores: Floats, groups: Integers) -> Replicates:
    """AUC of all rows and without each group, shape [groups], from counts of pairs within and across groups."""
    size = int(groups.max()) + 1
    _, dense = np.unique(scores, return_inverse=True)
    wins = _wins(dense, positive)
    won, lost = _by_group(wins, positive, groups, size), _by_group(wins, ~positive, groups, size)
    inside = _wins(groups * (int(dense.max()) + 1) + dense, positive)
    before = np.concatenate([[0], np.cumsum(np.bincount(groups[~positive], minlength=size))])[:size]
    own = _by_group(np.where(positive, inside - before[groups], 0.0), positive, groups, size)
    positives, negatives = (np.bincount(groups[kind], minlength=size) for kind in (positive, ~positive))
    pairs = (positives.sum() - positives) * (negatives.sum() - negatives).astype(np.float64)
    left = np.where((pairs > 0) & (positives + negatives > 0), pairs, np.nan)
    whole = float(positives.sum()) * float(negatives.sum())
    value = float(won.sum()) / whole if whole else float("nan")
    return Replicates(value, (won.sum() - won - lost + own) / left)


def auc_influence(positive: Mask, scores: Floats) -> tuple[float, Floats]:
    """AUC, and how much each row adds to its error, shape [n], summing up to 0 (DeLong et al. 1988)."""
    positives = float(positive.sum())
    negatives = len(positive) - positives
    if positives == 0 or negatives == 0:
        return float("nan"), np.zeros(len(positive))
    share = _wins(scores, positive) / np.where(positive, negatives, positives)
    value = float(share[positive].mean())
    return value, np.asarray((share - value) / np.where(positive, positives, negatives))


def _wins(values: npt.NDArray[np.generic], positive: Mask) -> Floats:
    """For a positive row how many negatives lie below it, for a negative how many positives above; ties half."""
    from scipy.stats import rankdata

    ranks = rankdata(values)
    wins = np.empty(len(values))
    wins[positive] = ranks[positive] - rankdata(values[positive])
    wins[~positive] = positive.sum() - (ranks[~positive] - rankdata(values[~positive]))
    return wins


def _by_group(values: Floats, mask: Mask, groups: Integers, size: int) -> Floats:
    return np.asarray(np.bincount(groups[mask], weights=values[mask], minlength=size), dtype=np.float64)
