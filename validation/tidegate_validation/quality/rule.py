"""The thresholds of the quality gate, and the rule that turns numbers about two models into outcomes.

The policy file fills `QualityRule`; `gate` asks `compared` and `too_good` and words what they say.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QualityRule:
    """Thresholds of the quality gate.

    `task` is auto, binary or regression. `margin` is how much AUC (or, for regression, how large a share of the
    baseline's error) a candidate may lose; `loss_margin` how much its mean loss may grow, as a share of the baseline's.
    `alpha` is the error rate of intervals. `too_good` is the share of the baseline's remaining ranking error (1 - AUC,
    or squared error) that a candidate may take away before it is suspected of a leak; `first_limit` the AUC (or R²)
    from which a first version is, `lone_limit` the AUC of one input by itself. `trusted` lists inputs that may be that
    strong. `collapse` is the share of one single answer from which predictions count as collapsed. `min_auc` and
    `min_rows` bound what may be judged at all; `max_rows` bounds what is predicted, `batch_rows` one batch.
    """

    task: str = "auto"
    margin: float = 0.01
    loss_margin: float = 0.05
    alpha: float = 0.05
    too_good: float = 0.34
    first_limit: float = 0.98
    lone_limit: float = 0.95
    trusted: tuple[str, ...] = ()
    collapse: float = 0.95
    min_auc: float = 0.5
    min_rows: int = 200
    max_rows: int = 60_000
    batch_rows: int = 1024
