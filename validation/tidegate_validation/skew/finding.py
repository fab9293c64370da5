"""Findings about one feature: one plain sentence, the numbers behind it, and the cause where known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis import (
    beyond,
    categories,
    clock,
    dates,
    frozen,
    grown,
    in_order,
    rivals,
    transformed,
)
from tidegate_validation.skew.diagnosis.cause import AFFINE, FACTOR, Cause, is_usual
from tidegate_validation.skew.measures.distance import BlockDistance
from tidegate_validation.skew.measures.numbers import FeatureNumbers
from tidegate_validation.skew.rule import Aspect, Judgement, SkewRule
from tidegate_validation.statistics.bins import MISSING
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.numbers import round_up

MISSING_VALUES = "missing values"
_ROUGH = 0.004
"""Relative error of a factor from which on only two digits of it are told."""
_SMALL = 1.0
_WANDERS = 2.0
"""A step from the days before to the window that is so many times what the window differs by is no shift of it; where
Δ is not small, which has an end at 2, that says nothing."""
SEVERITY = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN, Outcome.INCONCLUSIVE, Outcome.PASS)
"""Unlike in a verdict, a small shift that is sure comes before a feature of which nothing can be told yet."""
_OF_SINGLE_VALUES = (categories.NEW_CATEGORY, beyond.NEW_VALUE, rivals.DEFAULT, beyond.OUTSIDE)
_OF_WAVES = (categories.NEW_CATEGORY, categories.GONE, categories.RENAMED, beyond.NEW_VALUE)
_ORDER = (
    Aspect.UNSEEN,
    Aspect.RANGE,
    Aspect.SIGN,
    Aspect.DISTRIBUTION,
    Aspect.POINT,
    Aspect.OUTSIDE,
    Aspect.DIGITS,
    Aspect.MISSING,
    Aspect.INFINITE,
)


def findings_of(
    numbers: FeatureNumbers,
    judgements: Sequence[Judgement],
    cause: Cause | None,
    rule: SkewRule,
    since: str | None = None,
    instead: Finding | None = None,
) -> list[Finding]:
    """Findings of one feature, the gravest first: one always, and one more for every further test that did not pass.

    A cause that explains the values speaks for all tests that look at values; they become one finding. `since` is the
    date from which on the feature differs, None for the whole window. `instead` speaks for them where more is known.
    """
    ordered = sorted(judgements, key=lambda one: (SEVERITY.index(one.outcome), _ORDER.index(one.test)))
    about_values = [one for one in ordered if one.test not in (Aspect.MISSING, Aspect.INFINITE)]
    first = instead
    if cause is not None:
        first = _explained(numbers, about_values, replace(cause, since=since), rule)
    if first is not None:
        rest = [one for one in ordered if one not in about_values and one.outcome is not Outcome.PASS]
        return sorted(
            [first, *(_plain(numbers, one, rule, since) for one in rest)], key=lambda one: SEVERITY.index(one.outcome)
        )
    kept = [one for one in ordered if one.outcome is not Outcome.PASS]
    kept = kept or [one for one in ordered if one.test is Aspect.DISTRIBUTION]
    return [_plain(numbers, one, rule, since) for one in kept]


def _explained(numbers: FeatureNumbers, about_values: Sequence[Judgement], cause: Cause, rule: SkewRule) -> Finding:
    """What a cause explains, the gravest judgement first, with the numbers of the test that decided.

    Among tests that say the same the distribution's speaks for all, unless the cause is about single values. Where the
    values themselves are the evidence, there is no p-value to be told.
    """
    deciding = about_values[0]
    shape = next(one for one in about_values if one.test is Aspect.DISTRIBUTION)
    told = shape if shape.outcome is deciding.outcome and cause.kind not in _OF_SINGLE_VALUES else deciding
    outcome = _with_cause(deciding.outcome, cause)
    words = f"`{numbers.feature}`: {explain(cause)}{_since(cause.since)}{_few_days(numbers, outcome)}"
    if cause.kind in _OF_WAVES:
        words += _waves_unknown(numbers, outcome)
    found = _finding(numbers, told, rule, words, outcome, cause.to_dict())
    return found if outcome is deciding.outcome else replace(found, p_value=None)


def _since(since: str | None) -> str:
    return f", since {since}" if since else ""


def _few_days(numbers: FeatureNumbers, outcome: Outcome) -> str:
    known = outcome is not Outcome.WARN or numbers.distribution.block_robust
    return "" if known else "; training has too few days to know how days differ"


def _waves_unknown(numbers: FeatureNumbers, outcome: Outcome) -> str:
    """That training is too short to tell whether values come and go, as releases of a version do."""
    if outcome is not Outcome.FAIL or not numbers.days_for_waves:
        return ""
    wanted = f"{_days(numbers.days_for_waves)} of training would tell"
    return f"; whether its values come and go by nature, as releases do, could not be compared: {wanted}"


def explain(cause: Cause, who: str = "served values are", of: str = "those of training") -> str:
    """A cause in words, such as `served values are 1.609 times those of training (kilometres against miles?)`."""
    if not cause.is_conversion:
        return _OTHER[cause.kind](cause, {**dict(cause.details), "share": _percent(cause.share)})
    share = _where(cause) or ("" if cause.share >= 0.9 else f" for {100 * cause.share:.0f} % of the rows")
    name = f" ({cause.name}?)" if cause.name else ""
    days = dict(cause.details).get("days")
    size = f"{abs(cause.offset):.4g}" if days is None else f"about {float(f'{abs(days):.3g}'):g} days"
    offset = f"{'plus' if cause.offset >= 0 else 'minus'} {size}"
    exact = cause.precision <= _ROUGH or is_usual(cause)
    factor = f"{cause.factor:.4g}" if exact else f"about {float(f'{cause.factor:.2g}'):g}"
    if cause.kind == FACTOR:
        return f"{who} {factor} times {of}{share}{name}"
    if cause.kind == AFFINE:
        return f"{who} {factor} times {of} {offset}{share}{name}"
    return f"{who} {of} {offset}{share}{name}"


def _where(cause: Cause) -> str:
    where = dict(cause.details).get("where")
    return f" {where_words(where)}, {100 * cause.share:.0f} % of the rows" if where else ""


def where_words(where: Mapping[str, Any]) -> str:
    """The rows of one category or several of a column: `where `device` is “a”, “b” or “c”`."""
    *values, last = [f"“{value}”" for value in (where["value"], *where.get("or", ()))]
    return f"where `{where['column']}` is {', '.join(values) + ' or ' if values else ''}{last}"


def _instead(details: Mapping[str, Any]) -> str:
    return "in place of missing ones?" if "instead_of" in details else "a default?"


def _and_more(number: int) -> str:
    return f" and {number} more" if number else ""


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else f"“{value}”"


_OTHER: Mapping[str, Callable[[Cause, Mapping[str, Any]], str]] = {
    frozen.ONE_VALUE: lambda cause, d: (
        f"it is frozen at {_value(d['value'])}"
        + ("" if cause.since else f" in the whole window, {d['share']} of the rows hold just that")
    ),
    grown.RESTARTED: lambda _, d: "it begins again from where training began (a counter that was set back?)",
    in_order.SORTED: lambda _, d: f"values are in {d['way']} order over the whole window (sorted apart from its rows?)",
    dates.SWAPPED: lambda _, d: (
        f"dates have day and month in each other's place, which changes {d['share']} of the rows"
    ),
    rivals.OTHER_COLUMN: lambda _, d: f"it holds what `{d['column']}` held in training",
    rivals.CLIPPED: lambda _, d: (
        f"values {d['side']} {_value(d['at'])} are cut off to it, {d['share']} of the rows hold just that"
    ),
    clock.CLOCK: lambda _, d: (
        f"times of day are {abs(d['offset']):g} h {'later' if d['offset'] > 0 else 'earlier'} than before (time zone?)"
    ),
    rivals.DEFAULT: lambda _, d: (
        f"{d['share']} of the rows hold {_value(d['value'])} that did not in training ({_instead(d)})"
    ),
    beyond.NEW_VALUE: lambda _, d: (
        f"{d['share']} of the rows hold {_value(d['value'])}, which training never held ({_instead(d)})"
    ),
    categories.NEW_CATEGORY: lambda _, d: (
        f"{d['share']} of the rows hold categories that training never held: {', '.join(map(_value, d['values']))}"
    ),
    categories.RENAMED: lambda _, d: f"the category {_value(d['old'])} is called {_value(d['new'])} now",
    categories.EXCHANGED: lambda _, d: (
        f"the categories {_value(d['values'][0])} and {_value(d['values'][1])} hold each other's part of the rows "
        "(exchanged codes?)"
    ),
    categories.MERGED: lambda _, d: (
        f"the categor{'ies' if 'also' in d else 'y'} {' and '.join(map(_value, [d['old'], *d.get('also', [])]))} "
        f"{'are' if 'also' in d else 'is'} counted as {_value(d['new'])} now"
    ),
    categories.RESPELLED: lambda _, d: (
        f"{d['share']} of the rows hold categories of training written another way ({d['change']}): "
        + ", ".join(f"{_value(old)} as {_value(new)}" for old, new in d["spellings"][:3])
    ),
    categories.GONE: lambda _, d: (
        f"{'hardly any' if 'rows' in d else 'no'} row holds {', '.join(map(_value, d['values']))}"
        f"{_and_more(d['number'] - len(d['values']))}, {d['share']} of the rows did in training"
        + (f"; far fewer other rows than ever in training on {_days(d['quiet'])} (holidays?)" if "quiet" in d else "")
    ),
    rivals.INVERTED: lambda _, d: "its two values have changed places (inverted?)",
    transformed.TRANSFORMED: lambda _, d: f"served values look like those of training after one more step: {d['how']}",
    rivals.ROUNDED: lambda _, d: (
        f"values are {'rounded or cut off' if d['way'] == 'either' else d['way']} to {d['step']:g}, unlike in training"
    ),
    beyond.OUTSIDE: lambda _, d: (
        f"{d['share']} of the values lie {d['side']} {_value(d['limit'])}, the end of training's range"
        + (f": {where_words(d['where'])}" if "where" in d else "")
    ),
}


def _with_cause(outcome: Outcome, cause: Cause) -> Outcome:
    """Days do not multiply values: a factor that the values themselves give away needs no many days to be believed."""
    if outcome in (Outcome.WARN, Outcome.INCONCLUSIVE) and cause.by_values:
        return Outcome.FAIL
    return outcome


_RULES = {
    Aspect.DISTRIBUTION: "skew.margin",
    Aspect.MISSING: "skew.missing_margin",
    Aspect.UNSEEN: "skew.unseen_floor",
    Aspect.RANGE: "skew.unseen_floor",
    Aspect.OUTSIDE: "skew.unseen_floor",
    Aspect.DIGITS: "skew.margin",
    Aspect.SIGN: "skew.margin",
    Aspect.POINT: "skew.point_margin",
}


def _plain(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule, since: str | None) -> Finding:
    told = judgement.outcome in (Outcome.FAIL, Outcome.WARN)
    words = _SENTENCES[judgement.test](numbers, judgement, rule)
    sentence = f"`{numbers.feature}`: {words}{_since(since) if told else ''}{_few_days(numbers, judgement.outcome)}"
    if judgement.test is Aspect.UNSEEN:
        sentence += _waves_unknown(numbers, judgement.outcome)
    cause = None
    if told and judgement.test is Aspect.MISSING:
        gap = numbers.missing_shares.current - numbers.missing_shares.reference
        cause = {"kind": MISSING_VALUES, "share": round(gap, 4), **({"since": since} if since else {})}
    return _finding(numbers, judgement, rule, sentence, judgement.outcome, cause)


def about_missing_values(days: Finding, reference: FeatureCounts, current: FeatureCounts) -> Finding:
    """What is told of days on which other values are missing, as any finding about missing values."""
    gap = _missing_share(current) - _missing_share(reference)
    return replace(days, check=Aspect.MISSING.value, cause={"kind": MISSING_VALUES, "share": round(gap, 4)})


def _missing_share(counts: FeatureCounts) -> float:
    return float(counts.of(MISSING).sum() / counts.n.sum())


def _finding(
    numbers: FeatureNumbers,
    judgement: Judgement,
    rule: SkewRule,
    sentence: str,
    outcome: Outcome,
    cause: Mapping[str, Any] | None,
) -> Finding:
    number, interval = _number(numbers, judgement, rule)
    return Finding(
        check=judgement.test.value,
        subject=numbers.feature,
        outcome=outcome,
        sentence=sentence,
        number=number,
        interval=interval,
        limit=judgement.limit,
        p_value=judgement.p_margin if outcome is Outcome.FAIL else judgement.p_zero,
        smallest_detectable=judgement.detectable if math.isfinite(judgement.detectable or 0.0) else None,
        cause=cause,
        rule=_RULES.get(judgement.test),
        rows_needed=_rows_needed(numbers, judgement, rule) if outcome is Outcome.INCONCLUSIVE else None,
    )


def _rows_needed(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> int | None:
    """Rows, of as many days in proportion, with which a shift of `rule.detectable` would have shown: what can be seen
    shrinks with the root of their number. None where days differ so much that nothing can be reckoned."""
    detectable = judgement.detectable
    if judgement.test is not Aspect.DISTRIBUTION or detectable is None or not math.isfinite(detectable):
        return None
    return round_up(numbers.distribution.rows * (detectable / rule.detectable) ** 2)


def _number(
    numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule
) -> tuple[float | None, tuple[float, float] | None]:
    if judgement.test is Aspect.DISTRIBUTION:
        distance = numbers.distribution
        if not distance.decidable:
            return distance.delta, None
        low, high = distance.lower(rule.alpha), distance.upper(rule.alpha)
        return distance.delta, (min(low, distance.delta), max(high, distance.delta))
    if judgement.test is Aspect.MISSING:
        return numbers.missing_shares.current - numbers.missing_shares.reference, None
    if judgement.test is Aspect.INFINITE:
        return numbers.infinite_shares.current, None
    if judgement.test is Aspect.DIGITS and numbers.digits is not None:
        return numbers.digits.delta, None
    if judgement.test is Aspect.SIGN and numbers.signs is not None:
        return numbers.signs.current - numbers.signs.reference, None
    if judgement.test is Aspect.POINT and numbers.point is not None:
        return numbers.point.excess, None
    by_test = {Aspect.UNSEEN: numbers.unseen, Aspect.OUTSIDE: numbers.outside}
    unseen = by_test.get(judgement.test, numbers.far)
    return (unseen.share if unseen else None), None


def _distribution(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    distance = numbers.distribution
    size = f"Δ {distance.delta:.2f}"
    if judgement.outcome is Outcome.PASS:
        if judgement.detectable is None:
            return "as in training"
        if judgement.detectable <= rule.detectable:
            shown = f"a shift of {judgement.detectable:.2f} would have shown"
            if distance.delta > judgement.detectable and distance.level is not None:
                return f"as far from training as so few rows are by chance ({size}; of the level, {shown})"
            if distance.delta > judgement.detectable:
                return f"not surely further from training than days may be by chance ({size})"
            return f"as in training ({size}; {shown})"
        seen = f"from {judgement.detectable:.2f} on" if math.isfinite(judgement.detectable) else "of no size"
        parts, they = ("days", "days") if distance.by_day else ("stretches of rows", "they")
        wide = f"{they} differ so much that shifts {seen} would show; {_more_days(distance, judgement, rule)}"
        return f"no further from training than its own {parts} are from each other ({size}; {wide})"
    if judgement.outcome is Outcome.INCONCLUSIVE:
        if distance.too_few:
            rows, of = min((distance.rows, ""), (distance.known, " of training"))
            return f"cannot tell, {rows} {'rows' if rows != 1 else 'row'}{of} {'are' if rows != 1 else 'is'} too few"
        enough = judgement.detectable is not None and math.isfinite(judgement.detectable)
        shown = f"shifts from Δ {judgement.detectable:.2f} on only" if enough else "no shift, days differ that much"
        days = f"{_days(distance.blocks)} and " if distance.by_day else ""
        return f"cannot tell: {days}{distance.rows} rows show {shown}"
    if distance.level is not None and distance.delta < _SMALL and abs(distance.level.size) > _WANDERS * distance.delta:
        return (
            f"the level of its values wanders over the days as it never did in training ({size} over the whole window)"
        )
    margin = (
        f"more than {rule.margin:g}" if judgement.outcome is Outcome.FAIL else f"not surely more than {rule.margin:g}"
    )
    return f"values are distributed unlike training's ({size}, {margin})"


def _more_days(distance: BlockDistance, judgement: Judgement, rule: SkewRule) -> str:
    """How many days would show a shift of `rule.detectable`: what can be seen shrinks with the root of their number."""
    parts, time = ("days", "") if distance.by_day else ("rows", ", and their times would tell how days differ")
    detectable = judgement.detectable
    if detectable is None or not math.isfinite(detectable):
        return f"more {parts} are needed{time}"
    number = distance.blocks if distance.by_day else distance.rows
    needed = round_up(number * (detectable / rule.detectable) ** 2)
    return f"about {needed} {parts} would show one of {rule.detectable:g}{time}"


def _missing(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    shares = numbers.missing_shares
    return f"{_percent(shares.current)} of the values are missing, {_percent(shares.reference)} were in training"


def _unseen(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    unseen = numbers.unseen
    if unseen is None or unseen.unseen == 0:
        return "no value that training never held"
    return f"{_percent(unseen.share)} of the rows hold values that training never held"


def _range(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    far = numbers.far
    return f"{_percent(far.share if far else 0.0)} of the values lie far outside training's range"


def _outside(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    outside = numbers.outside
    return f"{_percent(outside.share if outside else 0.0)} of the values lie outside training's range"


def _digits(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    return "values are given to other digits than in training (rounded?)"


def _sign(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    signs = numbers.signs
    if signs is None:
        return "as many values are below zero as in training"
    return f"{_percent(signs.current)} of the values are below zero, {_percent(signs.reference)} were in training"


def _point(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    point = numbers.point
    if point is None:
        return "no value weighs more than in training"
    now, before = _percent(point.share), _percent(point.expected)
    return f"{now} of the rows hold {_value(point.value)}, {before} did in training"


def _infinite(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    shares = numbers.infinite_shares
    return f"{_percent(shares.current)} of the values are infinite, {_percent(shares.reference)} were in training"


_SENTENCES = {
    Aspect.DISTRIBUTION: _distribution,
    Aspect.MISSING: _missing,
    Aspect.UNSEEN: _unseen,
    Aspect.RANGE: _range,
    Aspect.INFINITE: _infinite,
    Aspect.OUTSIDE: _outside,
    Aspect.DIGITS: _digits,
    Aspect.SIGN: _sign,
    Aspect.POINT: _point,
}


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.1f} %"


def _days(blocks: int) -> str:
    return "one day" if blocks == 1 else f"{blocks} days"
