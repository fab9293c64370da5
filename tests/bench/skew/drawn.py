"""What becomes of mishaps that a seed draws in worlds that it draws: found, first, named rightly or wrongly; and of
days in which nothing happened.

A cause that only says that values lie outside training's range says no more than what is seen, and so is not wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from tests.bench.rows import Row
from tests.bench.skew.drawn_worlds import SCORE, TIME, World, draw, kind_of
from tests.bench.skew.faults import Check, kind
from tests.bench.skew.sizes import Sizes

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.tables import as_table

_COLUMNS = Columns(time=TIME, prediction=SCORE)
_SEEN = (Outcome.FAIL, Outcome.WARN)
_FIRST = 1000
_PER_WORLD = 3
_TRIES = 60
_FACTORS = (1.609344, 2.20462, 3.28084, 0.3048, 100.0, 1000.0, 0.01, 0.001, 60.0, 10.0, 25.4)

Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class _Mishap:
    name: str
    subjects: tuple[str, ...]
    broken: pd.DataFrame
    right: Check


Draw = Callable[[World, str, Random], tuple[Any, Check] | None]


def _factor(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    factor = float(random.choice(_FACTORS))
    if float(world.before[name].quantile(0.9)) == 0:
        return None
    return world.now[name] * factor, kind("constant factor", factor=factor)


def _later_factor(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    days = world.now[TIME].dt.floor("D")
    changed = _factor(world, name, random)
    if changed is None or days.nunique() < 3:
        return None
    later = days >= days.min() + pd.Timedelta(days=int(days.nunique()) // 2)
    return world.now[name].mask(later, changed[0]), changed[1]


def _factor_of_some(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    changed = _factor(world, name, random)
    if changed is None or float(world.before[name].median()) == 0:
        return None
    return world.now[name].mask(_some(world, random, 0.2), changed[0]), changed[1]


def _nulls(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    return world.now[name].mask(_some(world, random, 0.1)), kind("missing values")


def _default(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    value = float(random.choice([0.0, -1.0, 999.0, 9999.0]))
    if float((world.before[name] == value).mean()) > 0.02:
        return None
    right = kind("default value", "new value", value=value)
    return world.now[name].mask(_some(world, random, 0.1), value), right


def _frozen(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    held = world.now[name].dropna()
    return (world.now[name] * 0 + float(held.iloc[0]), kind("one value")) if len(held) else None


def _clipped(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    at = float(world.before[name].quantile(random.uniform(0.6, 0.85)))
    if at <= float(world.before[name].median()):
        return None
    return world.now[name].clip(upper=at), kind("clipped")


def _rounded(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    step = 10.0 ** np.floor(np.log10(float(world.before[name].std()) + 1e-12))
    if float(((world.before[name] / step) % 1 == 0).mean()) > 0.2:
        return None
    return np.round(world.now[name] / step) * step, kind("rounded")


def _sign(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    if abs(float(world.before[name].median())) < 0.3 * float(world.before[name].std()):
        return None
    return -world.now[name], kind("constant factor", factor=-1.0)


def _logarithm(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    if float(world.before[name].min()) < 0 or float(world.before[name].median()) < 3:
        return None
    return np.log1p(world.now[name]), kind("transformed")


def _standardised(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    mean, spread = float(world.before[name].mean()), float(world.before[name].std())
    return (world.now[name] - mean) / spread, kind("transformed", "factor and offset", "constant offset")


def _beyond(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    low, high = float(world.before[name].min()), float(world.before[name].max())
    values = np.round(high + (high - low) * random.uniform(0.2, 2, len(world.now)), 3)
    return world.now[name].mask(_some(world, random, 0.05), values), _no_more


_OF_NUMBERS: dict[str, Draw] = {
    "factor": _factor,
    "factor since some day": _later_factor,
    "factor in 20 %": _factor_of_some,
    "nulls in 10 %": _nulls,
    "a default in 10 %": _default,
    "frozen": _frozen,
    "clipped": _clipped,
    "rounded": _rounded,
    "sign": _sign,
    "logarithm": _logarithm,
    "standardised": _standardised,
    "5 % beyond the range": _beyond,
}


def _top(world: World, name: str) -> list[str]:
    return [str(one) for one in world.now[name].value_counts().index]


def _merged(world: World, name: str, random: Random) -> tuple[Any, Check] | None:
    top = _top(world, name)
    if len(top) < 4:
        return None
    return world.now[name].replace({top[1]: top[0]}), kind("merged categories", "missing categories")


_OF_CATEGORIES: dict[str, Draw] = {
    "renamed": lambda world, name, _: (
        world.now[name].replace({_top(world, name)[0]: "another name"}),
        kind("renamed category"),
    ),
    "lower case": lambda world, name, _: (world.now[name].str.lower(), kind("written another way")),
    "padded": lambda world, name, _: (world.now[name] + " ", kind("written another way")),
    "a new one in 5 %": lambda world, name, random: (
        world.now[name].mask(_some(world, random, 0.05), "Atlantis"),
        kind("new category"),
    ),
    "merged": _merged,
}


def _some(world: World, random: Random, share: float) -> Any:
    return random.random(len(world.now)) < share


def _no_more(cause: Mapping[str, Any]) -> bool:
    return cause.get("kind") == "outside the range"


def _swapped(world: World, random: Random) -> _Mishap | None:
    names = [name for name in world.numbers if name != SCORE]
    if len(names) < 2:
        return None
    one, other = random.choice(names, 2, replace=False)
    broken = world.now.assign(**{one: world.now[other], other: world.now[one]})
    return _Mishap("swapped", (str(one), str(other)), broken, kind("other column"))


def _sent_twice(world: World, random: Random) -> _Mishap | None:
    broken = pd.concat([world.now, world.now[_some(world, random, 0.1)]]).sort_values(TIME, kind="stable")
    return _Mishap("10 % of the rows twice", ("rows",), broken, kind("duplicated rows"))


def _mishaps(world: World, random: Random) -> Iterator[_Mishap]:
    """Some, of any kind that the world's columns allow."""
    drawn = 0
    for _ in range(_TRIES):
        what = str(random.choice(["numbers"] * 6 + ["categories"] * 3 + ["swapped", "twice"]))
        if what in ("swapped", "twice"):
            found = _swapped(world, random) if what == "swapped" else _sent_twice(world, random)
        else:
            names = world.numbers if what == "numbers" else world.categories
            ways = _OF_NUMBERS if what == "numbers" else _OF_CATEGORIES
            found = _of_one(world, random, names, ways)
        if found is not None:
            drawn += 1
            yield found
        if drawn == _PER_WORLD:
            return


def _of_one(world: World, random: Random, names: Sequence[str], ways: Mapping[str, Draw]) -> _Mishap | None:
    if not names:
        return None
    name, way = str(random.choice(names)), str(random.choice([*ways]))
    changed = ways[way](world, name, random)
    if changed is None:
        return None
    return _Mishap(f"{way} of {kind_of(name)}", (name,), world.now.assign(**{name: changed[0]}), changed[1])


@dataclass(frozen=True, slots=True)
class _Told:
    seed: int
    mishap: _Mishap
    found: bool
    first: bool
    right: bool
    wrong: bool


def measure(sizes: Sizes) -> list[Row]:
    """Worlds of the usual sizes, ten for each draw of a planted fault."""
    told: list[_Told] = []
    calm: list[SkewReport] = []
    for seed in range(_FIRST, _FIRST + 10 * sizes.faults):
        world = draw(seed)
        profile = profile_table(as_table(world.before, "days before"), _COLUMNS, world.now.columns.tolist())
        calm.append(report_on_table(profile, as_table(world.now, "the days"), _COLUMNS))
        usual = {(one.subject, one.check) for one in calm[-1].findings if one.outcome in _SEEN}
        for mishap in _mishaps(world, np.random.default_rng([78, seed])):
            report = report_on_table(profile, as_table(mishap.broken, "the days"), _COLUMNS)
            told.append(_told(seed, mishap, report, usual))
    return [*_of_mishaps(told), *_of_calm(calm)]


def _told(seed: int, mishap: _Mishap, report: SkewReport, usual: set[tuple[str, str]]) -> _Told:
    seen = [one for one in report.findings if one.outcome in _SEEN and (one.subject, one.check) not in usual]
    about = [one for one in seen if one.subject in mishap.subjects]
    causes = [one.cause for one in about[:2] if one.cause]
    right = any(mishap.right(one) for one in causes)
    wrong = bool(causes) and not right and not all(_no_more(one) for one in causes)
    return _Told(seed, mishap, bool(about), bool(seen) and seen[0].subject in mishap.subjects, right, wrong)


def _of_mishaps(told: Sequence[_Told]) -> list[Row]:
    shares = {word: 100 * float(np.mean([getattr(one, word) for one in told])) for word in ("found", "first", "right")}
    wrong = 100 * float(np.mean([one.wrong for one in told]))
    rows = [Row(f"drawn mishaps: {word}", share, f"% of {len(told)}", "-", None) for word, share in shares.items()]
    rows.append(Row("drawn mishaps: named wrongly", wrong, f"% of {len(told)}", "at most 2", wrong <= 2))
    for one in told:
        words = "not found" if not one.found else "not first" if not one.first else "named wrongly" if one.wrong else ""
        if words:
            rows.append(Row(f"  {one.mishap.name}, world {one.seed}", 1, words, "-", None))
    return rows


def _of_calm(reports: Sequence[SkewReport]) -> list[Row]:
    failed = sum(any(one.outcome is Outcome.FAIL for one in report.findings) for report in reports)
    warned = sum(any(one.outcome is Outcome.WARN for one in report.findings) for report in reports)
    subjects = [(report, name) for report in reports for name in {one.subject for one in report.findings}]
    undecided = 100 * float(np.mean([r.feature(name).outcome is Outcome.INCONCLUSIVE for r, name in subjects]))
    limit = 0.075 * len(reports)
    return [
        Row("drawn days: reports with a FAIL", failed, f"of {len(reports)}", f"at most {limit:g}", failed <= limit),
        Row("drawn days: reports with a WARN", warned, f"of {len(reports)}", "-", None),
        Row("drawn days: columns undecided", undecided, "%", "at most 5", undecided <= 5),
    ]
