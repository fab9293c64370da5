"""Tidegate beside Evidently, NannyML and deepchecks, each as its documentation has it, on the same made-up orders.

Weeks that are like training, and the faults of `planted`: how often a column is blamed for nothing, how often the right
one is found and its cause named, and how long a report takes with everything at hand (imports and files not counted).
Peers see numbers and categories; time stamps and repeated rows are nothing that these tests of theirs look at.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.bench.environments import environment
from tests.bench.rows import Row
from tests.bench.skew.faults import Fault
from tests.bench.skew.planted import ORDERS_ALL, ORDERS_PART, SEEN, draw_orders, judge, result_of
from tests.bench.skew.sizes import Sizes

_PACKAGES = [
    "evidently==0.7.23", "nannyml==0.13.1", "deepchecks==0.19.1", "statsmodels", "pandas<3", "scikit-learn<1.6",
    "setuptools<81", "pyarrow",
]  # fmt: skip
_TOOLS = ("evidently", "nannyml", "deepchecks")
_WORKER = Path(__file__).with_name("peer_worker.py")
_FIRST = 700


@dataclass(frozen=True, slots=True)
class Week:
    """A week against the days before it; `fault` is what was planted, None for nothing."""

    name: str
    before: pd.DataFrame
    now: pd.DataFrame
    fault: Fault | None


@dataclass(frozen=True, slots=True)
class Told:
    """What a tool says of one week: columns that it blames, whether it names the right cause, seconds."""

    columns: tuple[str, ...]
    named: bool
    seconds: float


def measure(sizes: Sizes) -> list[Row]:
    """Rows for every tool; ours is to find and to name no less than the best of the others."""
    weeks = list(_weeks(sizes))
    told: dict[str, Mapping[str, Told]] = {"Tidegate": {week.name: _ours(week) for week in weeks}}
    with tempfile.TemporaryDirectory(prefix="tidegate-peers-") as name:
        for week in weeks:
            for part in ("before", "now"):
                getattr(week, part).to_parquet(Path(name) / f"{week.name}.{part}.parquet")
        told |= {tool: _theirs(tool, Path(name)) for tool in _TOOLS}
    return [row for figure in _FIGURES for row in _compared(figure, weeks, told)]


def _weeks(sizes: Sizes) -> Iterator[Week]:
    for seed in range(sizes.streams):
        yield Week(f"plain-{seed}", *draw_orders(_FIRST + seed), None)
    for seed in range(sizes.faults):
        before, now = draw_orders(seed)
        for place, fault in enumerate((*ORDERS_ALL, *ORDERS_PART)):
            broken = fault.plant(now, np.random.default_rng([seed, place]))
            yield Week(f"fault-{seed}-{place}", before, broken, fault)


def _ours(week: Week) -> Told:
    begun = time.perf_counter()
    report = judge(week.before, week.now)
    seconds = time.perf_counter() - begun
    blamed = tuple(dict.fromkeys(one.subject for one in report.findings if one.outcome in SEEN))
    return Told(blamed, week.fault is not None and result_of(week.fault, report).named, seconds)


def _theirs(tool: str, folder: Path) -> Mapping[str, Told]:
    """None of them names a cause: they tell a column, a test and its number."""
    python = environment("skew", _PACKAGES) / "bin/python"
    done = subprocess.run([str(python), str(_WORKER), tool, str(folder)], check=True, capture_output=True, text=True)
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {week: Told(tuple(one["columns"]), False, one["seconds"]) for week, one in found.items()}


@dataclass(frozen=True, slots=True)
class _Figure:
    """A number per tool from its weeks; where it is `promised`, ours is to be no less than the others'."""

    words: str
    unit: str
    of: Callable[[Sequence[tuple[Week, Told]]], float]
    promised: bool = False


def _share(weeks: Sequence[tuple[Week, Told]], planted: bool, hit: Callable[[Week, Told], bool]) -> float:
    return 100 * float(np.mean([hit(week, told) for week, told in weeks if (week.fault is not None) == planted]))


def _blames(week: Week, told: Told) -> bool:
    return week.fault is not None and any(one in week.fault.subjects for one in told.columns)


_FIGURES = (
    _Figure("weeks like training with a column blamed", "%", lambda w: _share(w, False, lambda _, t: any(t.columns))),
    _Figure("faults found", "%", lambda w: _share(w, True, _blames), True),
    _Figure("causes named", "%", lambda w: _share(w, True, lambda _, t: t.named), True),
    _Figure("a report takes", "s", lambda w: float(np.median([told.seconds for _, told in w]))),
)


def _compared(figure: _Figure, weeks: Sequence[Week], told: Mapping[str, Mapping[str, Told]]) -> Iterator[Row]:
    values = {tool: figure.of([(week, found[week.name]) for week in weeks]) for tool, found in told.items()}
    best = max(values[tool] for tool in _TOOLS)
    for tool, value in values.items():
        ours = figure.promised and tool == "Tidegate"
        target = f"at least {best:.3g}, the best peer's" if ours else "-"
        yield Row(f"{figure.words}: {tool}", value, figure.unit, target, value >= best if ours else None)
