"""Do columns still go together as in training: a column whose values were given to other rows looks right by itself,
and so do two that changed places and hold much the same.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.categories import EXCHANGED, GONE
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.frozen import ONE_VALUE
from tidegate_validation.skew.diagnosis.rivals import OTHER_COLUMN
from tidegate_validation.skew.finding import explain
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.statistics.arrays import Integers
from tidegate_validation.statistics.association import Association
from tidegate_validation.statistics.associations import Strengths, chosen_columns, hours_later, leveled, strengths
from tidegate_validation.statistics.bins import NumericBins
from tidegate_validation.statistics.counts import TIME_OF_DAY
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.rows import Rows
from tidegate_validation.statistics.window import Window

CHECK = "together"
SHUFFLED = "shuffled"
ASKED = " (shuffled rows?)"
_ZONE, _SUMMER = " (another time zone?)", " (an hour of summer time?)"
_MANY = 0.05
"""Rows that are gone: fewer hold no columns together,"""
_SO_MANY = 0.25
"""and so many may also hold those together that their category does not go with."""
TOLERATED = 0.25
_TELLING = 0.3
_RECKONED = 0.5
"""What other margins are reckoned to change is believed by half."""
_RETURNED = 0.5
_AS_WELL = 0.99
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Loss:
    """A pair that kept a part of what held it together; `turned` is by how many hours all times have to be later for it
    to go together again, 0 where that does not help."""

    pair: Association
    kept: float
    p_value: float
    turned: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """What a window's margins make of a pair as in training, what holds it together now on average, and the standard
    error of that; all in shares of rows."""

    usual: float
    mean: float
    error: float


def looser_columns(
    profile: Profile,
    window: Window,
    read: Rows,
    comparable: Collection[str],
    excused: Collection[str],
    rule: SkewRule,
) -> list[Finding]:
    """One finding for each of the `comparable` columns that no longer goes with others; `read` are the window's rows,
    `excused` columns differ by themselves already, and are only asked whether they changed places with another."""
    features = [one for one in chosen_columns(profile.inputs) if one.name in comparable and one.name not in excused]
    moment = window.moment if TIME_OF_DAY in profile.counts else None
    names = {one.name for one in features} | ({TIME_OF_DAY} if moment is not None else set())
    pairs = [one for one in profile.pairs if one.ranked and {one.first, one.second} <= names]
    if not pairs:
        return []
    blocks, levels = levels_in(features, profile, window, read, moment)
    lost = list(_lost(pairs, levels, blocks, rule))
    if not lost:
        return []
    if moment is not None:
        later = functools.cache(functools.partial(hours_later, read, moment, profile.counts))
        lost = [replace(one, turned=_turned(one.pair, levels, blocks, later)) for one in lost]
    everything = [one for one in chosen_columns(profile.inputs) if one.name in {*comparable, *excused}]
    moved = _Places(everything, profile, window, read, rule).exchanged(lost)
    left = [one for one in lost if not {one.pair.first, one.pair.second} & {name for two in moved for name in two}]
    return [*_of_other_places(moved), *blamed(pairs, left, profile.event_time or "")]


def of_fewer_rows(finding: Finding, causes: Mapping[str, Cause], pairs: Collection[Association]) -> Finding:
    """The finding of a column that no longer goes with others: a WARN without a cause where a category with many of
    training's rows is gone, as where a plant stands still. The rows that are left may always have gone together less.

    `pairs` went together in training: a smaller category matters to what it goes with. Where two of its categories were
    exchanged, which explains as much, it says so.
    """
    own = causes.get(finding.subject)
    if own is not None and own.kind == EXCHANGED and (finding.cause or {}).get("kind") == SHUFFLED:
        words = finding.sentence.removesuffix(ASKED).replace("its values are right by themselves, but", "its values")
        return replace(finding, sentence=f"{words}: {explain(own)}", cause=own.to_dict())
    concerned = {finding.subject, *(finding.cause or {}).get("columns", ())}
    near = {name for one in pairs if concerned & {one.first, one.second} for name in (one.first, one.second)}
    gone = {
        name: words
        for name, one in causes.items()
        if (words := _rows_gone(one)) and one.share >= (_MANY if name in near else _SO_MANY)
    }
    if not gone or (finding.cause or {}).get("kind") != SHUFFLED:
        return finding
    column = max(gone, key=lambda name: causes[name].share)
    words = f"{finding.sentence.removesuffix(ASKED)}, as rows whose `{column}` is {gone[column]} are gone"
    return replace(finding, outcome=Outcome.WARN, sentence=words, cause=None)


def _rows_gone(cause: Cause) -> str:
    """The categories of which no row is left, in words; empty where there are none."""
    details = dict(cause.details)
    if cause.kind == GONE:
        return ", ".join(f"“{one}”" for one in details["values"])
    return f"other than “{details['value']}”" if cause.kind == ONE_VALUE and isinstance(details["value"], str) else ""


def levels_in(
    features: Sequence[FeatureProfile], profile: Profile, window: Window, read: Rows, moment: str | None
) -> tuple[Integers, dict[str, Integers]]:
    """The places of the blocks of a window's rows, and the level of each of the features in them, [n]; `moment` is the
    column of their times, None where these are not asked."""
    carried = {window.columns.get(one.name, one.name): one for one in features}
    return leveled(read, carried, profile.counts, moment)


def _lost(
    pairs: Sequence[Association], levels: Mapping[str, Integers], blocks: Integers, rule: SkewRule
) -> Iterator[Loss]:
    """The pairs that surely lost more than a quarter."""
    for pair in pairs:
        one = _loss(pair, strengths(levels[pair.first], levels[pair.second], blocks, pair.cells, pair.odds))
        if one is not None and one.p_value * len(pairs) < rule.alpha / 2:
            yield one


@dataclass(frozen=True, slots=True)
class _Places:
    """All columns that may have changed places."""

    features: Sequence[FeatureProfile]
    profile: Profile
    window: Window
    read: Rows
    rule: SkewRule

    def exchanged(self, lost: Sequence[Loss]) -> list[tuple[str, str]]:
        """Two columns of numbers each that go with others as in training once they change places, where one of them
        goes with something that it did not go with in training."""
        blocks, levels = levels_in(self.features, self.profile, self.window, self.read, None)
        pairs = [one for one in self.profile.pairs if one.ranked and {one.first, one.second} <= levels.keys()]
        known = {frozenset((one.first, one.second)) for one in pairs if one.telling}
        numbers = [one.name for one in self.features if isinstance(one.bins, NumericBins)]
        found: list[tuple[str, str]] = []
        for two in itertools.combinations(numbers, 2):
            mine = [one.pair for one in lost if len({one.pair.first, one.pair.second} & {*two}) == 1]
            mine = [one for one in mine if {one.first, one.second} <= levels.keys()]
            if all(_as_exchanged(one, two) in known for one in mine) or {*two} & {
                name for one in found for name in one
            }:
                continue
            turned = {**levels, two[0]: levels[two[1]], two[1]: levels[two[0]]}
            theirs = [one for one in pairs if {one.first, one.second} & {*two}]
            if not any(_lost(theirs, turned, blocks, self.rule)) and all(_goes(one, turned, blocks) for one in mine):
                found.append((two[0], two[1]))
        return found


def _as_exchanged(pair: Association, two: tuple[str, str]) -> frozenset[str]:
    """The pair's columns, the other one in the place of that of the `two` which it has."""
    other = {two[0]: two[1], two[1]: two[0]}
    return frozenset(other.get(name, name) for name in (pair.first, pair.second))


def _goes(pair: Association, levels: Mapping[str, Integers], blocks: Integers) -> bool:
    now = _loss(pair, strengths(levels[pair.first], levels[pair.second], blocks, pair.cells, pair.odds))
    return now is not None and now.kept >= _RETURNED


def _of_other_places(moved: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    for two in moved:
        for name, other in (two, two[::-1]):
            sentence = f"`{name}`: it goes with other columns as `{other}` did in training: have they changed places?"
            cause = {"kind": OTHER_COLUMN, "share": 1.0, "column": other}
            yield Finding(CHECK, name, Outcome.FAIL, sentence, number=1.0, limit=TOLERATED, cause=cause)


def _loss(pair: Association, now: Strengths) -> Loss | None:
    """How sure it is that more than a quarter of what held the pair together is gone; None where the window's margins
    leave so little to go together that it cannot tell."""
    from scipy import special

    found = held(pair, now)
    if found is None:
        return None
    gone = found.usual * (1 - TOLERATED) - found.mean - _RECKONED * abs(found.usual - pair.strength)
    p_value = float(special.stdtr(max(pair.blocks - 1, 2), -gone / max(found.error, 1e-9)))
    return Loss(pair, found.mean / found.usual, p_value)


def held(pair: Association, now: Strengths) -> Held | None:
    """How much a window holds a pair together; None where its margins leave so little to hold that it cannot tell."""
    if not len(now.found):
        return None
    weights = now.rows / now.rows.sum()
    usual = float(weights @ now.expected)
    if usual < _TELLING * pair.strength:
        return None
    fewer = np.maximum(0.0, 0.25 / now.rows - 0.25 / pair.rows)
    error = float(weights**2 @ (pair.spread**2 + fewer) + pair.spread**2 / pair.blocks) ** 0.5
    return Held(usual, float(weights @ now.found), error)


def _turned(
    pair: Association, levels: Mapping[str, Integers], blocks: Integers, later: Callable[[int], Integers]
) -> int:
    """By how many hours all times have to be `later` for a column and the time of day to go together again, by half at
    least; the fewest where others do as well, and 0 for none."""
    if TIME_OF_DAY not in (pair.first, pair.second):
        return 0
    kept = {}
    for hours in sorted(range(-11, 13), key=abs):
        moved = {**levels, TIME_OF_DAY: later(hours)}
        now = strengths(moved[pair.first], moved[pair.second], blocks, pair.cells, pair.odds)
        expected = float(now.rows @ now.expected) if len(now.found) else 0.0
        kept[hours] = float(now.rows @ now.found) / expected if expected > 0 else 0.0
    best = max(kept.values())
    return next(hours for hours, one in kept.items() if one >= _AS_WELL * best) if best >= _RETURNED else 0


def blamed(pairs: list[Association], lost: list[Loss], time: str) -> list[Finding]:
    """The column of whose pairs the largest part is lost explains them all, then the next one of what remains. Where
    either may, the `time` of the events does if all went together again at other hours; at those one hour from their
    own, which may be summer time, it always does, with a WARN."""
    everything = Counter(name for pair in pairs for name in (pair.first, pair.second))
    found = []
    summer = [one for one in lost if abs(one.turned) == 1]
    if any(one.pair.telling for one in summer):
        told = _finding(TIME_OF_DAY, summer, time)
        found.append(replace(told, outcome=Outcome.WARN, sentence=told.sentence.replace(_ZONE, _SUMMER)))
    lost = [one for one in lost if one not in summer]
    while lost:
        broken = Counter(name for one in lost for name in (one.pair.first, one.pair.second))
        moved = all(one.turned for one in lost if TIME_OF_DAY in (one.pair.first, one.pair.second))
        some = not moved and broken[TIME_OF_DAY] < everything[TIME_OF_DAY]  # Other times would have broken all of them.
        rank = {
            name: (
                0.0 if some and name == TIME_OF_DAY else broken[name] / everything[name],
                broken[name],
                (name == TIME_OF_DAY) == moved,
            )
            for name in broken
        }
        column = max(broken, key=rank.__getitem__)
        mine = sorted((one for one in lost if column in (one.pair.first, one.pair.second)), key=lambda one: one.kept)
        lost = [one for one in lost if one not in mine]
        if any(one.pair.telling for one in mine):
            found.append(_finding(column, mine, time))
    return found


def _finding(column: str, losses: list[Loss], time: str) -> Finding:
    others = [one.pair.second if one.pair.first == column else one.pair.first for one in losses]
    partners = [time if name == TIME_OF_DAY else name for name in others]
    named = ", ".join(f"the time of day of `{time}`" if one == TIME_OF_DAY else f"`{one}`" for one in others[:SHOWN])
    kept = float(np.mean([max(one.kept, 0.0) for one in losses]))
    much = "no longer" if kept < TOLERATED else "less than in training"
    kind = SHUFFLED
    sentence = f"`{column}`: its values are right by themselves, but {much} go with those of {named}{ASKED}"
    if column == TIME_OF_DAY:
        column, kind = time, "time zone"
        sentence = f"`{time}`: its times of day {much} go with {named}{_ZONE}"
    cause = {"kind": kind, "share": round(min(1.0, 1 - kept), 4), "columns": partners}
    turned = [one.turned for one in losses if TIME_OF_DAY in (one.pair.first, one.pair.second)]
    if turned and all(turned):
        cause["turned"] = max(turned, key=abs)
    return Finding(
        CHECK,
        column,
        Outcome.FAIL,
        sentence,
        number=1 - kept,
        limit=TOLERATED,
        p_value=min(one.p_value for one in losses),
        cause=cause,
    )
