"""Three mistakes that careful people ship: a wrong unit, an unchecked lookup, and a column from the future.

Each makes a `Candidate` that looks like any other. The gates know none of this.
"""

from __future__ import annotations

import enum
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidegate_flights.candidates import ONNX_FILE, Candidate, train_boosting
from tidegate_flights.features import CATEGORIES, LABEL, NUMBERS, signature
from tidegate_flights.models import fit, gradient_boosting, to_onnx

if TYPE_CHECKING:
    import pandas as pd

KILOMETRES_PER_MILE = 1.609344
_CARRIER_RATE = "carrier_rate"


class Mistake(enum.StrEnum):
    """Kinds of candidate that the demo can try in place of its usual three; `none` is an honest retrain."""

    UNIT = "unit"
    CRASH = "crash"
    LEAK = "leak"
    NONE = "none"


def train_mistaken(kind: Mistake, training: pd.DataFrame, files: Path) -> Candidate:
    """The candidate of that kind, trained on the frame that everyone trains on."""
    if kind is Mistake.UNIT:
        return _wrong_unit(training, files)
    if kind is Mistake.CRASH:
        return _unchecked_lookup(training, files)
    if kind is Mistake.LEAK:
        return train_boosting(training, files, extra_numbers=("dep_delay",), title="boosting with departure delay")
    return train_boosting(training, files, seed=1, title="gradient boosting, trained again")


def _wrong_unit(training: pd.DataFrame, files: Path) -> Candidate:
    """Somebody moved the training query to the metric system; the serving feed still sends miles."""
    metric = training.assign(distance=(training["distance"] * KILOMETRES_PER_MILE).astype("float32"))
    return train_boosting(metric, files, title="gradient boosting on kilometres")


def _unchecked_lookup(training: pd.DataFrame, files: Path) -> Candidate:
    """Each carrier's share of late flights, looked up in a packed table without a check that the carrier is in it."""
    rates = training.groupby("carrier")[LABEL].mean()
    frame = training.assign(**{_CARRIER_RATE: training["carrier"].map(rates).astype("float32")})
    numbers = (*NUMBERS, _CARRIER_RATE)
    model = fit(gradient_boosting(numbers), frame, frame[LABEL])
    files.mkdir(parents=True)
    (files / ONNX_FILE).write_bytes(to_onnx(model, numbers, CATEGORIES))
    np.save(files / "carriers.npy", rates.index.to_numpy(dtype="S2"))
    np.save(files / "rates.npy", rates.to_numpy(dtype=np.float32))
    shutil.copyfile(Path(__file__).with_name("unchecked_lookup.py"), files / "model.py")
    return Candidate("gradient boosting with a packed carrier table", "python", files, training, signature())
