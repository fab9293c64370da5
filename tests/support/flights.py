"""Flights for tests: the real ones, read once per test process and thinned out, so that training takes a second."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tidegate_flights.data import Flights, read_flights

if TYPE_CHECKING:
    import pandas as pd


@functools.cache
def all_flights() -> Flights:
    """Everything that the demo reads."""
    return read_flights()


def some_training(rows: int = 6000) -> pd.DataFrame:
    """Training rows from all of the months, in the order of the events."""
    training = all_flights().training
    return training.iloc[:: max(1, len(training) // rows)].reset_index(drop=True)


def some_june(rows: int = 300) -> pd.DataFrame:
    """The first flights of June, among them some that never arrived."""
    return all_flights().june.head(rows)
