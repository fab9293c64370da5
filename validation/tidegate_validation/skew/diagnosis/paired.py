"""Why values of the same examples differ: one change that explains nearly all of those that do, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_validation.skew.diagnosis.clock import CLOCK
from tidegate_validation.skew.diagnosis.other_rows import of_other_rows
from tidegate_validation.skew.diagnosis.units import nearest_factor
from tidegate_validation.statistics.arrays import Floats, Mask

Column = Floats | npt.NDArray[np.object_]
_NEARLY_ALL = 0.9
_EXACT = 1e-4
_CHANCE = 0.6
_NAMED = 1e-3
_DAY_HOURS = 24

OTHER_ROWS = "other rows"
_CLIPPED, _DEFAULT = "clipped", "default value"
_OF_ONE_VALUE = {_CLIPPED: ("at", "they are cut off at {}"), _DEFAULT: ("value", "{} in all of them")}
"""Kinds of change that leave one value: what details call it, and words."""


@dataclass(frozen=True, slots=True)
class PairCause:
    """A kind of change, in words and with its details."""

    kind: str
    words: str
    details: Mapping[str, Any] = field(default_factory=dict)


def explain_pairs(
    x: Column,
    y: Column,
    wrong: Mask,
    others: Mapping[str, Column],
    earlier: Sequence[Column],
    keys: Mapping[str, Column],
) -> PairCause | None:
    """What makes `y` of `x` where they differ.

    `others` are training's other columns of the same examples, `earlier` its own column some rows before, `keys`
    further columns by which rows may have been joined.
    """
    before, now = x[wrong], y[wrong]
    if _missing(now).mean() > _NEARLY_ALL:
        return PairCause("missing values", "they are missing")
    numbers = _is_number(x) and _is_number(y)
    ways: list[Callable[[], PairCause | None]] = [
        lambda: _clipped(x, y, wrong) or _of_numbers(before, now) if numbers else _of_texts(before, now, x),
        lambda: _one_value(now),
        lambda: _of_another(now, {name: values[wrong] for name, values in others.items()}),
        lambda: _stale(x, now, [values[wrong] for values in earlier]),
        lambda: _of_other_rows(x, y, wrong, {**others, **keys}),
        lambda: None if numbers else _of_some_texts(before, now),
    ]
    return next((found for way in ways if (found := way()) is not None), None)


def told_in_moments(cause: PairCause | None, moment: Callable[[float], str]) -> PairCause | None:
    """The cause of moments that were compared in hours, in words of hours, days and moments; `moment` writes the one
    that a number of hours stands for."""
    if cause is None:
        return None
    if cause.kind in _OF_ONE_VALUE:
        name, words = _OF_ONE_VALUE[cause.kind]
        value = moment(float(cause.details[name]))
        return PairCause(cause.kind, words.format(value), {name: value})
    if cause.kind != "constant offset":
        return cause
    hours = round(float(cause.details["offset"]), 4)
    way = "later" if hours > 0 else "earlier"
    if hours % _DAY_HOURS:
        return PairCause(CLOCK, f"they are {abs(hours):g} h {way} than training's (time zone?)", {"offset": hours})
    days = round(abs(hours) / _DAY_HOURS)
    words = f"they are {days} day{'' if days == 1 else 's'} {way} than training's"
    return PairCause(cause.kind, words, {"offset": hours})


def _is_number(values: Column) -> bool:
    return values.dtype != object


def _missing(values: Column) -> Mask:
    if _is_number(values):
        return np.asarray(np.isnan(np.asarray(values, dtype=np.float64)))
    return np.asarray([value is None for value in values], dtype=np.bool_)


def _of_numbers(before: Column, now: Column) -> PairCause | None:
    a, b = np.asarray(before, dtype=np.float64), np.asarray(now, dtype=np.float64)
    keep = np.isfinite(a) & np.isfinite(b)
    if keep.sum() < max(3, _NEARLY_ALL * len(a)):
        return None
    a, b = a[keep], b[keep]
    return _factor(a, b) or _offset(a, b) or _rounded(a, b) or _line(a, b)


def _clipped(x: Column, y: Column, wrong: Mask) -> PairCause | None:
    """All values beyond a limit, and only they, are that limit now."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if np.nanmin(b) == np.nanmax(b):
        return None
    for at, beyond in ((float(np.nanmax(b)), a > np.nanmax(b)), (float(np.nanmin(b)), a < np.nanmin(b))):
        if np.mean(beyond[wrong]) > _NEARLY_ALL and np.mean(b[beyond] == at) > _NEARLY_ALL:
            return PairCause(_CLIPPED, f"they are cut off at {at:g}", {"at": at})
    return None


def _agree(values: Floats, middle: float) -> bool:
    return float(np.mean(np.abs(values - middle) <= _EXACT * max(abs(middle), 1e-12))) >= _NEARLY_ALL


def _factor(a: Floats, b: Floats) -> PairCause | None:
    keep = a != 0
    if keep.sum() < _NEARLY_ALL * len(a) or len(np.unique(a[keep])) < 3:
        return None
    factor = float(np.median(b[keep] / a[keep]))
    if factor == 0 or not _agree(b[keep] / a[keep], factor):
        return None
    named = nearest_factor(factor, _NAMED)
    units = {"units": named.words} if named else {}
    words = f"{factor:.6g} times training's" + (f" ({named.words}?)" if named else "")
    return PairCause("constant factor", words, {"factor": factor, **units})


def _offset(a: Floats, b: Floats) -> PairCause | None:
    gap = float(np.median(b - a))
    room = _EXACT * abs(gap) + 1e-6 * float(np.median(np.abs(a)))
    if np.mean(np.abs(b - a - gap) <= room) >= _NEARLY_ALL and gap != 0:
        return PairCause("constant offset", f"training's plus {gap:.6g}", {"offset": gap})
    around = (b - a) % _DAY_HOURS
    hours = float(np.median(around))
    if np.all((a >= 0) & (a <= _DAY_HOURS) & (b >= 0) & (b <= _DAY_HOURS)) and _agree(around, hours):
        hours = hours if hours <= _DAY_HOURS / 2 else hours - _DAY_HOURS
        return PairCause(CLOCK, f"training's plus {hours:g} hours around the clock", {"offset": hours})
    return None


def _rounded(a: Floats, b: Floats) -> PairCause | None:
    for power in range(4, -7, -1):
        step = 10.0**power
        ways = {"rounded": np.round(a / step) * step, "cut off": np.floor(a / step) * step}
        for way, made in ways.items():
            if np.mean(np.abs(made - b) <= 1e-6 * np.maximum(np.abs(b), step)) >= _NEARLY_ALL and len(np.unique(b)) > 1:
                return PairCause("rounded", f"{way} to {step:g}", {"step": step, "way": way})
    return None


def _line(a: Floats, b: Floats) -> PairCause | None:
    if len(np.unique(a)) < 4:
        return None
    slope, start = (float(value) for value in np.polyfit(a, b, 1))
    close = np.abs(slope * a + start - b) <= 1e-6 * max(float(np.abs(b).max()), 1e-12)
    if np.mean(close) < _NEARLY_ALL or abs(slope) < 1e-9:
        return None
    words = f"{slope:.6g} times training's plus {start:.6g}"
    return PairCause("factor and offset", words, {"factor": slope, "offset": start})


def _of_texts(before: Column, now: Column, training: Column) -> PairCause | None:
    pairs = [(str(a), str(b)) for a, b in zip(before, now, strict=True) if a is not None and b is not None]
    if not pairs:
        return None
    if np.mean([a.strip().casefold() == b.strip().casefold() for a, b in pairs]) > _NEARLY_ALL:
        return PairCause("spelling", "they differ in capitals or blanks only")
    renamed = _renamed(pairs)
    if renamed is None:
        return None
    old, new = renamed
    everywhere = np.sum(before == old) >= _NEARLY_ALL * np.sum(training == old)
    return _under_another_name(old, new) if everywhere or (_all_of(before, old) and new not in training) else None


def _all_of(values: Column, value: str) -> bool:
    return bool(np.mean(values == value) > _NEARLY_ALL)


def _of_some_texts(before: Column, now: Column) -> PairCause | None:
    """A category that is called otherwise in part of its rows, and no other is called by its name instead."""
    renamed = _renamed([(str(a), str(b)) for a, b in zip(before, now, strict=True) if a is not None and b is not None])
    return None if renamed is None or (now == renamed[0]).any() else _under_another_name(*renamed)


def _under_another_name(old: str, new: str) -> PairCause:
    return PairCause("renamed category", f"“{old}” is called “{new}”", {"old": old, "new": new})


def _renamed(pairs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The most frequent category and what it is called, where nearly every one has one other name."""
    named: dict[str, dict[str, int]] = {}
    for a, b in pairs:
        named.setdefault(a, {}).setdefault(b, 0)
        named[a][b] += 1
    usual = sum(max(found.values()) for found in named.values())
    if len(named) * 3 > len(pairs) or usual < _NEARLY_ALL * len(pairs) or len({b for _, b in pairs}) == 1 < len(named):
        return None
    old = max(named, key=lambda name: sum(named[name].values()))
    return old, max(named[old], key=lambda name: named[old][name])


def _same(one: Column, other: Column) -> float:
    """Share of values that are equal to six digits."""
    if _is_number(one) != _is_number(other):
        return 0.0
    if not _is_number(one):
        return float(np.mean(one == other))
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return float(np.mean(np.abs(a - b) <= 1e-6 * np.maximum(np.abs(a), np.abs(b))))


def _of_another(now: Column, others: Mapping[str, Column]) -> PairCause | None:
    shares = {name: _same(now, values) for name, values in others.items()}
    name = max(shares, key=lambda one: shares[one], default=None)
    if name is None or shares[name] < _NEARLY_ALL:
        return None
    return PairCause("other column", f"training's `{name}`", {"column": name})


def _stale(x: Column, now: Column, earlier: Sequence[Column]) -> PairCause | None:
    """The value of an earlier row, more often than two rows are equal by chance."""
    chance = _same(x[:-1], x[1:]) if len(x) > 1 else 1.0
    best = max((_same(now, values) for values in earlier), default=0.0)
    if best < _NEARLY_ALL or chance > _CHANCE:
        return None
    return PairCause("stale", "training's value of the row before")


def _of_other_rows(x: Column, y: Column, wrong: Mask, others: Mapping[str, Column]) -> PairCause | None:
    found = of_other_rows(x, y, wrong, others)
    if found is None:
        return None
    if found.key is None:
        return PairCause(OTHER_ROWS, "they are training's values of other examples (a wrong join key?)")
    words = f"they are training's values of other examples, one for each `{found.key}` (a wrong join key?)"
    return PairCause(OTHER_ROWS, words, {"key": found.key})


def _one_value(now: Column) -> PairCause | None:
    present = now[~_missing(now)]
    values, counts = np.unique(present.astype(str) if not _is_number(now) else present, return_counts=True)
    if not len(values) or counts.max() < _NEARLY_ALL * len(now) or len(now) < 3:
        return None
    value = values[int(np.argmax(counts))]
    plain = str(value) if not _is_number(now) else float(value)
    said = f"“{plain}”" if isinstance(plain, str) else f"{plain:g}"
    return PairCause(_DEFAULT, f"{said} in all of them", {"value": plain})
