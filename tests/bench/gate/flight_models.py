"""The flights of 2013 as held-out data, and models of one training that differ in their seed only.

The measures of the quality gate compare such models; training is on January to March unless told otherwise.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate_flights.data import join, package_data
from tidegate_flights.features import CATEGORIES, EVENT_TIME, LABEL, NUMBERS
from tidegate_serving.contract.signature import TensorSpec
from tidegate_validation.quality.data.held_out import HeldOut, Source, held_out_of
from tidegate_validation.quality.data.outputs import Prediction
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.statistics.arrays import Floats

SLICES = QualityRule(slice_columns=("carrier", "origin", "hour", "dest"), slice_rows=100, max_slices=43)
"""43 slices: carriers, airports, hours, and the most frequent destinations. (A weekday holds eight or nine days of two
months, too few to be sure of anything that moves with the weather.)"""
_ROWS = 20_000


@dataclass(frozen=True)
class Season:
    """Some months as held-out data with every model's probabilities, shape [models, rows]."""

    held_out: HeldOut
    scores: Floats


@functools.cache
def _year() -> Any:
    import pandas as pd

    folder = package_data()
    flights = pd.read_csv(folder / "flights.csv.zip")
    rows = join(flights, pd.read_csv(folder / "weather.csv"), pd.read_csv(folder / "planes.csv"))
    return rows[rows["arrived"]].reset_index(drop=True)


def _features(rows: Any) -> Any:
    import pandas as pd

    coded = {name: rows[name].astype("category").cat.codes for name in CATEGORIES}
    return pd.DataFrame({**{name: rows[name].astype(float).fillna(-1) for name in NUMBERS}, **coded})


@functools.cache
def seasons(kind: str, seeds: int, wanted: tuple[tuple[int, ...], ...]) -> list[Season]:
    """Seasons judged by `seeds` models of one kind (`forest` or `boosted`), all trained on the same 20,000 flights."""
    import sklearn.ensemble  # noqa: F401 - limits hold for thread pools that are loaded before
    from threadpoolctl import threadpool_limits

    rows = _year()
    features, labels = _features(rows), rows[LABEL].to_numpy()
    training = np.flatnonzero(rows["month"] <= 3)
    chosen = np.random.default_rng(1).choice(training, _ROWS, replace=False)
    held = [np.flatnonzero(rows["month"].isin(months)) for months in wanted]
    everything = np.concatenate(held)
    with threadpool_limits(limits=1):
        scores = [
            _learner(kind, seed).fit(features.iloc[chosen], labels[chosen]).predict_proba(features.iloc[everything])
            for seed in range(seeds)
        ]
    cuts = np.cumsum([len(one) for one in held])[:-1]
    by_season = np.split(np.array([one[:, 1] for one in scores]), cuts, axis=1)
    return [Season(_held_out(rows.iloc[one]), part) for one, part in zip(held, by_season, strict=True)]


def _learner(kind: str, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    if kind == "forest":
        return RandomForestClassifier(60, max_depth=12, min_samples_leaf=5, random_state=seed, n_jobs=1)
    return HistGradientBoostingClassifier(max_iter=80, max_features=0.5, max_leaf_nodes=15, random_state=seed)


def _held_out(rows: Any) -> HeldOut:
    table = pa.Table.from_pandas(rows[[*NUMBERS, *CATEGORIES, EVENT_TIME, LABEL]], preserve_index=False)
    source = Source(table, LABEL, (), EVENT_TIME, None)
    return held_out_of(source, [Prediction(TensorSpec("probability", "float32"))], SLICES)
