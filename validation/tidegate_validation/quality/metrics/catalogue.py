"""Every metric that the quality gate knows: its name, its tasks, which way is better, and how it is computed.

To add a metric, write its function in the file of its task and a row in METRICS. A policy may name any metric, also by
the name that TensorFlow Model Analysis gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.evaluation import Evaluation, Task, is_probability
from tidegate_validation.quality.metrics import calibration, classification, ranking, regression
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.jackknife import Replicates

PerExample = Callable[[Evaluation, Floats], Floats]
Whole = Callable[[Evaluation, Floats], Replicates]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: the mean of `each` example's value (or query's), or a `whole` that is no mean.

    `relative` changes are shares of the baseline's value, others points. `probabilities` says that scores must be such.
    """

    name: str
    tasks: tuple[str, ...]
    higher: bool
    relative: bool = False
    each: PerExample | None = None
    whole: Whole | None = None
    probabilities: bool = False

    def fits(self, evaluation: Evaluation, scores: Sequence[Floats]) -> bool:
        """Whether it can be told for the task and the scores."""
        if evaluation.task not in self.tasks or (self.name == TOP_K and evaluation.k <= evaluation.options.top_k):
            return False
        return not self.probabilities or all(is_probability(one) for one in scores)


_TWO, _MANY, _NUMBERS, _RANKS = ((str(task),) for task in Task)
_CLASSES = (*_TWO, *_MANY)
AREA, TOP_K = "AUC", "top-k accuracy"
METRICS: tuple[Metric, ...] = (
    Metric(AREA, _CLASSES, True, whole=classification.area),
    Metric("Brier score", _CLASSES, False, True, each=classification.brier, probabilities=True),
    Metric("log loss", _CLASSES, False, True, each=classification.log_loss, probabilities=True),
    Metric("accuracy", _TWO, True, each=classification.accuracy, probabilities=True),
    Metric("accuracy", _MANY, True, each=classification.accuracy),
    Metric("balanced accuracy", _TWO, True, whole=classification.balanced_accuracy, probabilities=True),
    Metric("balanced accuracy", _MANY, True, whole=classification.balanced_accuracy),
    Metric("F1", _TWO, True, whole=classification.positive_f1, probabilities=True),
    Metric("macro F1", _MANY, True, whole=classification.macro_f1),
    Metric("micro F1", _MANY, True, whole=classification.micro_f1),
    Metric(TOP_K, _MANY, True, each=classification.top_k),
    Metric("calibration error", _CLASSES, False, whole=calibration.calibration_error, probabilities=True),
    Metric("squared error", _NUMBERS, False, True, each=regression.squared),
    Metric("absolute error", _NUMBERS, False, True, each=regression.absolute),
    Metric("root mean squared error", _NUMBERS, False, True, whole=regression.root_mean_square),
    Metric("R²", _NUMBERS, True, whole=regression.explained),
    Metric("quantile loss", _NUMBERS, False, True, each=regression.quantile_loss),
    Metric("NDCG", _RANKS, True, each=ranking.ndcg),
    Metric("MAP", _RANKS, True, each=ranking.average_precision),
    Metric("MRR", _RANKS, True, each=ranking.reciprocal_rank),
)
DECIDING: dict[str, tuple[str, ...]] = {
    Task.BINARY: ("AUC", "Brier score"),
    Task.MULTICLASS: ("accuracy", "Brier score"),
    Task.REGRESSION: ("squared error", "absolute error"),
    Task.RANKING: ("NDCG",),
}
_OTHER_NAMES = {
    "auc": "AUC",
    "binary_accuracy": "accuracy",
    "categorical_accuracy": "accuracy",
    "sparse_categorical_accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "binary_crossentropy": "log loss",
    "categorical_crossentropy": "log loss",
    "sparse_categorical_crossentropy": "log loss",
    "cross_entropy": "log loss",
    "brier_score": "Brier score",
    "f1": "F1",
    "f1_score": "F1",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "top_k_categorical_accuracy": TOP_K,
    "sparse_top_k_categorical_accuracy": TOP_K,
    "expected_calibration_error": "calibration error",
    "mean_squared_error": "squared error",
    "mean_absolute_error": "absolute error",
    "root_mean_squared_error": "root mean squared error",
    "rmse": "root mean squared error",
    "mse": "squared error",
    "mae": "absolute error",
    "r2": "R²",
    "ndcg": "NDCG",
    "map": "MAP",
    "mrr": "MRR",
}


def canonical(name: str) -> str:
    """A metric's own name. InvalidInput, listing the names, for one that is not known."""
    names = {metric.name.lower(): metric.name for metric in METRICS}
    found = names.get(name.lower()) or _OTHER_NAMES.get(name.lower().replace(" ", "_"))
    if found is None:
        raise InvalidInput(f"metric {name!r} is unknown: use one of {', '.join(dict.fromkeys(names.values()))}")
    return found


def metrics_for(evaluation: Evaluation, scores: Sequence[Floats]) -> list[Metric]:
    """Those that can be told for the task and all the scores."""
    return [metric for metric in METRICS if metric.fits(evaluation, scores)]
