"""A power grid from winter to spring: the load falls as it gets warm, and load and price follow the hour."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

DAY = 86_400
FIRST, DAYS, WINDOW, ROWS = 19_400, 75, 7, 288


def power(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sixty-eight days, and the week after them, every five minutes; the days of a week hang together."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(DAYS), ROWS)
    hour = np.tile(np.arange(ROWS) * 24 / ROWS, DAYS)
    wave = 120 * np.sin((hour - 8) / 24 * 2 * np.pi)
    warm = _weather(random, 3, 0.8)[day] + 15 * np.sin((FIRST + day - 100) / 365 * 2 * np.pi) + 8
    load = np.round(500 - 6 * warm + wave + random.normal(0, 15, len(day)), 1)
    price = np.round(60 + 0.3 * wave + _weather(random, 12, 0.6)[day] + random.normal(0, 6, len(day)), 2)
    rows = pd.DataFrame({"at": (FIRST + day) * DAY + (hour * 3600).astype(np.int64), "load": load, "price": price})
    return rows[day < DAYS - WINDOW], rows[day >= DAYS - WINDOW]


def _weather(random: np.random.Generator, spread: float, alike: float) -> npt.NDArray[np.float64]:
    """A level for each day that resembles the one before."""
    found = np.zeros(DAYS)
    for day in range(1, DAYS):
        found[day] = alike * found[day - 1] + random.normal(0, spread * (1 - alike**2) ** 0.5)
    return found
