"""Faults planted into the current rows, each with the columns that may be blamed and the cause that would be right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

Random = np.random.Generator
Plant = Callable[[pd.DataFrame, Random], pd.DataFrame]
Check = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Fault:
    """`plant` breaks a copy of the rows; `subjects` may be blamed; `named` says whether a cause is the right one."""

    name: str
    subjects: tuple[str, ...]
    plant: Plant
    named: Check


def kind(*kinds: str, **values: Any) -> Check:
    """A cause of one of these kinds, with these values; numbers within one per cent."""

    def check(cause: Mapping[str, Any]) -> bool:
        return cause.get("kind") in kinds and all(_same(cause.get(name), value) for name, value in values.items())

    return check


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, int | float):
        return abs(found - wanted) <= 0.01 * abs(wanted)
    return bool(found == wanted)


def change(column: str, how: Callable[[Any, Random], Any]) -> Plant:
    """Replaces one column."""
    return lambda rows, random: rows.assign(**{column: how(rows[column], random)})


def times(column: str, factor: float) -> Fault:
    """All values in another unit."""
    return Fault(
        f"x{factor:g} in {column}",
        (column,),
        change(column, lambda values, _: values * factor),
        kind("constant factor", factor=factor),
    )


def part_times(column: str, factor: float, share: float) -> Fault:
    """Some values in another unit."""
    return Fault(
        f"x{factor:g} in {share:.0%} of {column}",
        (column,),
        change(column, lambda values, random: values.where(random.random(len(values)) >= share, values * factor)),
        kind("constant factor", factor=factor),
    )


def some(column: str, value: Any, share: float, check: Check, word: str) -> Fault:
    """Some values replaced by one."""

    def plant(rows: pd.DataFrame, random: Random) -> pd.DataFrame:
        hit = random.random(len(rows)) < share
        return rows.assign(**{column: rows[column].mask(hit, value)})

    return Fault(f"{word} in {share:.0%} of {column}", (column,), plant, check)


def clock(column: str, hours: int) -> Fault:
    """An hour of the day read in another zone."""
    return Fault(
        f"{hours:+d} h in {column}",
        (column,),
        change(column, lambda values, _: (values + hours) % 24),
        lambda cause: cause.get("kind") == "clock" and cause.get("offset") in (hours, float(hours), hours - 24),
    )


def stamp(column: str, hours: int) -> Fault:
    """A time stamp read in another zone."""
    return Fault(
        f"{hours:+d} h in time stamp {column}",
        (column,),
        change(column, lambda values, _: values + pd.Timedelta(hours=hours)),
        lambda cause: cause.get("kind") == "clock" and abs(cause.get("offset", 99) - hours) < 0.3,
    )


def swapped(one: str, other: str) -> Fault:
    """Two columns in each other's place."""
    return Fault(
        f"{one} and {other} swapped",
        (one, other),
        lambda rows, _: rows.assign(**{one: rows[other].to_numpy(), other: rows[one].to_numpy()}),
        lambda cause: cause.get("kind") == "other column" and cause.get("column") in (one, other),
    )


def renamed(column: str, old: str, new: str) -> Fault:
    """A category under another name."""
    return Fault(
        f"{old} renamed in {column}",
        (column,),
        change(column, lambda values, _: values.replace({old: new})),
        kind("renamed category", old=old, new=new),
    )


def merged(column: str, old: str, into: str) -> Fault:
    """A category counted under another one's name."""
    return Fault(
        f"{old} merged into {into} in {column}",
        (column,),
        change(column, lambda values, _: values.replace({old: into})),
        kind("merged categories", old=old, new=into),
    )


def clipped(column: str, top: float) -> Fault:
    """Values above a limit cut down to it."""
    return Fault(
        f"{column} clipped at {top:g}",
        (column,),
        change(column, lambda values, _: values.clip(upper=top)),
        kind("clipped", at=top),
    )


def rounded(column: str, step: float, truncate: bool = False) -> Fault:
    """Values rounded, or cut off, to multiples of a step."""
    cut = np.floor if truncate else np.round
    return Fault(
        f"{column} {'truncated' if truncate else 'rounded'} to {step:g}",
        (column,),
        change(column, lambda values, _: cut(values / step) * step),
        kind("rounded", step=float(step)),
    )


def frozen(column: str, word: str = "frozen") -> Fault:
    """One value in all rows."""
    return Fault(
        f"{column} {word}",
        (column,),
        change(column, lambda values, _: np.repeat(values.dropna().iloc[:1].to_numpy(), len(values))),
        kind("one value"),
    )


def beyond(column: str, top: float, share: float) -> Fault:
    """Some values a little above the highest that training held."""
    return some(column, top, share, kind("outside the range", "new value"), f"{top:g}, just outside,")


def nulls(column: str, share: float) -> Fault:
    """More missing values."""
    return some(column, None, share, kind("missing values"), "nulls")


def duplicated(share: float) -> Fault:
    """Rows that are there twice."""

    def plant(rows: pd.DataFrame, random: Random) -> pd.DataFrame:
        again = rows[random.random(len(rows)) < share]
        return pd.concat([rows, again], ignore_index=True)

    return Fault(f"{share:.0%} of the rows duplicated", ("rows",), plant, kind("duplicated rows"))


def shuffled(column: str) -> Fault:
    """A column's values given to other rows."""
    return Fault(
        f"{column} shuffled",
        (column,),
        lambda rows, random: rows.assign(**{column: random.permutation(rows[column].to_numpy())}),
        kind("shuffled"),
    )


def unseen(column: str, share: float) -> Fault:
    """A category that training never held."""
    return some(column, "none such", share, kind("new category"), "an unseen category")
