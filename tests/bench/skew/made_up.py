"""Mishaps in made-up worlds: found, blamed first, called by the right name or by a wrong one; and weeks in which
nothing happened, also where they come in other types, in fewer or in more days.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from tests.bench.rows import Row
from tests.bench.skew.mishaps import MISHAPS, Mishap
from tests.bench.skew.sizes import Sizes
from tests.bench.skew.worlds import TIME, WINDOW, WORLDS, divided

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.tables import as_table

_SEEN = (Outcome.FAIL, Outcome.WARN)
_ROLES = {
    "clinic": Columns(time=TIME, prediction="risk", label="readmitted"),
    "payments": Columns(time=TIME, prediction="risk", label="fraud"),
    "machines": Columns(time=TIME, prediction="wear"),
    "rides": Columns(time=TIME, prediction="score"),
}


@dataclass(frozen=True, slots=True)
class _Told:
    mishap: Mishap
    found: bool
    first: bool
    right: bool
    wrong: bool


def mishaps(sizes: Sizes) -> list[Row]:
    """What becomes of every mishap, over as many draws as there are of faults."""
    told = [one for seed in range(sizes.faults) for world in WORLDS for one in _mishaps_of(world, seed)]
    named = [one for one in told if one.mishap.needed]
    rows = [
        _share("mishaps found", [one.found for one in told], 95),
        _share("mishaps blamed first", [one.first for one in told], 95),
        _share("causes named, of those that can be", [one.right for one in named], 90),
        _share("causes named wrongly", [one.wrong for one in told], None),
    ]
    for one in told:
        words = [word for word in ("found", "first") if not getattr(one, word)]
        words += ["named wrongly"] if one.wrong else ["not named"] if one.mishap.needed and not one.right else []
        about = f"{one.mishap.name} of {', '.join(one.mishap.subjects)} in {one.mishap.world}"
        rows += [
            Row(f"  {about}", 1, f"not {word}" if word in ("found", "first") else word, "-", None) for word in words
        ]
    return rows


def _share(words: str, hits: Sequence[bool], least: float | None) -> Row:
    value = 100 * float(np.mean(hits))
    if least is None:
        return Row(words, value, "%", "0", value == 0)
    return Row(words, value, "%", f"at least {least:g}", value >= least)


def _mishaps_of(world: str, seed: int) -> list[_Told]:
    before, now = divided(WORLDS[world](seed))
    profile = profile_table(as_table(before, "days before"), _ROLES[world], now.columns.tolist())
    plain = report_on_table(profile, as_table(now, "the week"), _ROLES[world])
    usual = {(one.subject, one.check) for one in plain.findings if one.outcome in _SEEN}
    told = []
    for place, mishap in enumerate(MISHAPS):
        if mishap.world == world:
            broken = mishap.happen(now.copy(), np.random.default_rng([seed, place]))
            report = report_on_table(profile, as_table(broken, "the week"), _ROLES[world])
            told.append(_told(mishap, report, usual))
    return told


def _told(mishap: Mishap, report: SkewReport, usual: set[tuple[str, str]]) -> _Told:
    seen = [one for one in report.findings if one.outcome in _SEEN and (one.subject, one.check) not in usual]
    about = [one for one in seen if one.subject in mishap.subjects]
    causes = [one.cause for one in about[:2] if one.cause]
    right = any(mishap.right(one) for one in causes)
    first = bool(seen) and seen[0].subject in mishap.subjects
    return _Told(mishap, bool(about), first, right, bool(causes) and not right)


Calm = Callable[[pd.DataFrame], pd.DataFrame]


def _other_types(rows: pd.DataFrame) -> pd.DataFrame:
    """The same values as other systems hand them over."""
    rows = rows.assign(**{TIME: rows[TIME].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")})
    for name in rows.columns:
        kind = rows[name].dtype
        if kind == np.float64 and np.allclose(rows[name].dropna(), rows[name].dropna().round(4), rtol=0, atol=1e-9):
            exact = [None if np.isnan(one) else decimal.Decimal(f"{one:.4f}") for one in rows[name]]
            rows[name] = pd.Series(exact, index=rows.index, dtype=object)
        elif kind == np.float64:
            rows[name] = rows[name].astype(np.float32)
        elif kind == np.int64 and rows[name].abs().max() < 2**31:
            rows[name] = rows[name].astype(np.int32)
        elif isinstance(rows[name].iloc[0], str) and rows[name].nunique() < 20:
            rows[name] = rows[name].astype("category")
    return rows[list(reversed(rows.columns))]


CALM: dict[str, tuple[int, Calm]] = {
    "as they are": (WINDOW, lambda rows: rows),
    "of other types": (WINDOW, _other_types),
    "of one day": (1, lambda rows: rows),
    "of three days": (3, lambda rows: rows),
    "of two weeks": (14, lambda rows: rows),
    "in another order of rows": (WINDOW, lambda rows: rows.sample(frac=1, random_state=1)),
    "with a third of the rows": (WINDOW, lambda rows: rows.sample(frac=1 / 3, random_state=1).sort_index()),
}


def calm(sizes: Sizes) -> list[Row]:
    """Windows in which nothing happened."""
    found: dict[str, list[SkewReport]] = {name: [] for name in CALM}
    for seed in range(max(1, sizes.streams // 10)):
        for world, make in WORLDS.items():
            everything = make(1000 + seed)
            for name, (days, change) in CALM.items():
                before, now = divided(everything, days)
                profile = profile_table(as_table(before, "days before"), _ROLES[world], now.columns.tolist())
                found[name].append(report_on_table(profile, as_table(change(now), "the days"), _ROLES[world]))
    return [row for name, reports in found.items() for row in _alarms(name, reports)]


def _alarms(name: str, reports: Sequence[SkewReport]) -> list[Row]:
    failed = [any(one.outcome is Outcome.FAIL for one in report.findings) for report in reports]
    warned = [any(one.outcome is Outcome.WARN for one in report.findings) for report in reports]
    subjects = [(report, subject) for report in reports for subject in {one.subject for one in report.findings}]
    undecided = 100 * float(np.mean([r.feature(s).outcome is Outcome.INCONCLUSIVE for r, s in subjects]))
    blamed = [f"{one.subject} {one.check}" for r in reports for one in r.findings if one.outcome is Outcome.FAIL]
    limit = 0.075 * len(reports)
    return [
        Row(
            f"windows {name}: reports with a FAIL",
            sum(failed),
            f"of {len(reports)}",
            f"at most {limit:g}",
            sum(failed) <= limit,
        ),
        Row(f"windows {name}: reports with a WARN", sum(warned), f"of {len(reports)}", "-", None),
        Row(f"windows {name}: columns undecided", undecided, "%", "at most 5", undecided <= 5),
        *(Row(f"  {one}", blamed.count(one), "FAILs", "-", None) for one in sorted(set(blamed))),
    ]
