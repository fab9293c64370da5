"""The two honest model families: a logistic regression and a gradient boosting, as scikit-learn pipelines over columns.

Candidates fit them on the training frame; `conversion` turns the boosting into ONNX. Both accept missing numbers and
categories that training never showed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate_flights.features import CATEGORIES, NUMBERS

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.pipeline import Pipeline

_ITERATIONS = 300


def fit(pipeline: Pipeline, rows: pd.DataFrame, labels: pd.Series[int]) -> Pipeline:
    """The pipeline, fitted by one thread: OpenMP's threads wait for each other ten times as long on a busy machine."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return pipeline.fit(rows, labels)


def logistic_regression() -> Pipeline:
    """Missing numbers become the median, rare categories share a column, and an unknown one counts as rare."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    categories = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=50)
    columns = ColumnTransformer([("numbers", numbers, list(NUMBERS)), ("categories", categories, list(CATEGORIES))])
    return make_pipeline(columns, LogisticRegression(max_iter=300))


def gradient_boosting(
    numbers: tuple[str, ...] = NUMBERS, categories: tuple[str, ...] = CATEGORIES, *, seed: int = 0
) -> Pipeline:
    """Shallow trees that look at half of the columns at each split; the seed decides which half."""
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = ColumnTransformer([("numbers", "passthrough", list(numbers)), ("categories", ordinal, list(categories))])
    trees = HistGradientBoostingClassifier(
        max_iter=_ITERATIONS,
        learning_rate=0.05,
        max_leaf_nodes=7,
        min_samples_leaf=200,
        l2_regularization=1.0,
        max_features=0.5,
        early_stopping=False,
        random_state=seed,
    )
    return make_pipeline(columns, trees)
