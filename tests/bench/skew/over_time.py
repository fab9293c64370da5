"""The e-detector: how long until it cries wolf, on deviates by themselves and on days of streams, and how soon it finds
a drift.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy import stats
from tests.bench.rows import Row
from tests.bench.skew import data
from tests.bench.skew.sizes import Sizes

from tidegate_validation.skew import Columns
from tidegate_validation.skew.measures.e_detector import advance, e_values
from tidegate_validation.skew.over_time import over_time
from tidegate_validation.skew.two_tables import profile_table
from tidegate_validation.statistics.counting import count_relation
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.window import table_window
from tidegate_validation.tables import as_table

N = 365
_WINDOWS = 2_000
_STREAM_DAYS = 200
_DRIFTS = 200
_SURE = 0.95


def measure(sizes: Sizes) -> list[Row]:
    """All rows."""
    rows = []
    for features in (1, 20):
        quiet = _first_alarms(np.random.default_rng(features), sizes.streams, features, 0.0)
        drifting = _first_alarms(np.random.default_rng(100 + features), _DRIFTS, features, 3.0)
        what = f"e-detector, N {N}, {features} feature{'s' if features > 1 else ''}"
        mean, delay = float(np.mean(quiet)), float(np.median(drifting))
        rows += [
            Row(f"{what}: windows between false alarms, mean", mean, "windows", f"at least {N}", mean >= N),
            Row(f"{what}: drift of 3 deviations found, median", delay, "windows", "at most 3", delay <= 3),
        ]
    return [*rows, *(_on_streams(correlation, max(2, sizes.streams // 10)) for correlation in (0.0, 0.5, 0.9))]


def _first_alarms(random: np.random.Generator, streams: int, features: int, drift: float) -> list[int]:
    """Windows until the first alarm; a stream that ends without one counts with its length, which is too little."""
    found = []
    for _ in range(streams):
        deviates = random.normal(0, 1, (_WINDOWS, features))
        deviates[:, 0] += drift
        e = e_values(2 * stats.norm.sf(np.abs(deviates)))
        evidence, alarm = np.zeros(features), np.zeros(features, dtype=np.bool_)
        count = 0
        while count < _WINDOWS and not alarm.any():
            evidence, alarm = advance(evidence, alarm, e[count], N)
            count += 1
        found.append(count)
    return found


def _on_streams(correlation: float, streams: int) -> Row:
    """Days one by one, after ninety of training: how many windows there are for each alarm."""
    alarms, windows = sum(_alarms(seed, correlation) for seed in range(streams)), streams * _STREAM_DAYS
    chance = int(stats.poisson.ppf(_SURE, windows / N))
    what = f"e-detector, {windows} days of streams with correlation {correlation:g}: days for each alarm"
    target = f"at least {N}: up to {chance} alarms are chance"
    return Row(what, windows / max(alarms, 1), "windows", target, alarms <= chance)


def _alarms(seed: int, correlation: float) -> int:
    """How often a feature gets into alarm while none was."""
    rows = data.stream(70_000 + seed, 90 + _STREAM_DAYS, 200, correlation)
    known = data.day_numbers(rows) < 16_090
    profile = profile_table(as_table(rows[known], "days before"), Columns(time=data.TIME), rows.columns.tolist())
    with table_window(as_table(rows[~known], "days"), event_time=data.TIME) as window:
        counts = count_relation(window.connection, window.relation, window.block, profile.inputs, window.columns)
    found, alarmed = 0, False
    with TemporaryDirectory() as folder:
        for day in range(16_090, 16_090 + _STREAM_DAYS):
            since, until = (datetime.fromtimestamp(one * data.DAY, UTC) for one in (day, day + 1))
            one_day = {name: _of_day(one, day) for name, one in counts.items()}
            seen = over_time("stream", profile, one_day, (since, until), Path(folder), N)
            before, alarmed = alarmed, any(one.alarm_since for one in seen.features.values())
            found += alarmed and not before
    return found


def _of_day(counts: FeatureCounts, day: int) -> FeatureCounts:
    kept = counts.blocks == day
    return FeatureCounts(counts.blocks[kept], counts.codes, counts.n[kept])
