"""Findings about one feature: one plain sentence, the numbers behind it, and the cause where known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.cause import AFFINE, FACTOR, Cause
from tidegate_validation.skew.numbers import FeatureNumbers
from tidegate_validation.skew.rule import Aspect, Judgement, SkewRule
from tidegate_validation.statistics.numbers import round_up

SEVERITY = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN, Outcome.INCONCLUSIVE, Outcome.PASS)
"""Unlike in a verdict, a small shift that is sure comes before a feature of which nothing can be told yet."""
_ORDER = (Aspect.UNSEEN, Aspect.RANGE, Aspect.DISTRIBUTION, Aspect.MISSING, Aspect.INFINITE)


def findings_of(
    numbers: FeatureNumbers, judgements: Sequence[Judgement], cause: Cause | None, rule: SkewRule
) -> list[Finding]:
    """Findings of one feature, the gravest first: one always, and one more for every further test that did not pass.

    A cause that explains the values speaks for all tests that look at values; they become one finding.
    """
    ordered = sorted(judgements, key=lambda one: (SEVERITY.index(one.outcome), _ORDER.index(one.test)))
    if cause is not None:
        about_values = [one for one in ordered if one.test not in (Aspect.MISSING, Aspect.INFINITE)]
        rest = [one for one in ordered if one not in about_values and one.outcome is not Outcome.PASS]
        outcome = _with_cause(about_values[0].outcome, cause)
        shape = next(one for one in about_values if one.test is Aspect.DISTRIBUTION)
        first = _finding(numbers, shape, rule, f"`{numbers.feature}`: {explain(cause)}", outcome, cause)
        return sorted(
            [first, *(_plain(numbers, one, rule) for one in rest)], key=lambda one: SEVERITY.index(one.outcome)
        )
    kept = [one for one in ordered if one.outcome is not Outcome.PASS]
    kept = kept or [one for one in ordered if one.test is Aspect.DISTRIBUTION]
    return [_plain(numbers, one, rule) for one in kept]


def explain(cause: Cause, who: str = "served values are", of: str = "those of training") -> str:
    """A cause in words, such as `served values are 1.609 times those of training (kilometres against miles?)`."""
    share = "" if cause.share >= 0.9 else f" for {cause.share:.0%} of the rows"
    name = f" ({cause.name}?)" if cause.name else ""
    offset = f"{'plus' if cause.offset >= 0 else 'minus'} {abs(cause.offset):.4g}"
    if cause.kind == FACTOR:
        return f"{who} {cause.factor:.4g} times {of}{share}{name}"
    if cause.kind == AFFINE:
        return f"{who} {cause.factor:.4g} times {of} {offset}{share}{name}"
    return f"{who} {of} {offset}{share}{name}"


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
}


def _plain(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> Finding:
    sentence = f"`{numbers.feature}`: {_SENTENCES[judgement.test](numbers, judgement, rule)}"
    return _finding(numbers, judgement, rule, sentence, judgement.outcome, None)


def _finding(
    numbers: FeatureNumbers,
    judgement: Judgement,
    rule: SkewRule,
    sentence: str,
    outcome: Outcome,
    cause: Cause | None,
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
        cause=cause.to_dict() if cause else None,
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
        if distance.freedom <= 0:
            return distance.delta, None
        return distance.delta, (distance.lower(rule.alpha), distance.upper(rule.alpha))
    if judgement.test is Aspect.MISSING:
        return numbers.missing_shares.current - numbers.missing_shares.reference, None
    if judgement.test is Aspect.INFINITE:
        return numbers.infinite_shares.current, None
    unseen = numbers.unseen if judgement.test is Aspect.UNSEEN else numbers.far
    return (unseen.share if unseen else None), None


def _distribution(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    distance = numbers.distribution
    size = f"Δ {distance.delta:.2f}"
    if judgement.outcome is Outcome.PASS:
        if judgement.detectable is None:
            return "as in training"
        return f"as in training ({size}; a shift of {judgement.detectable:.2f} would have shown)"
    if judgement.outcome is Outcome.INCONCLUSIVE:
        if distance.too_few:
            return f"cannot tell, {distance.rows} rows are too few"
        enough = judgement.detectable is not None and math.isfinite(judgement.detectable)
        shown = f"shifts from Δ {judgement.detectable:.2f} on only" if enough else "no shift, days differ that much"
        return f"cannot tell: {_days(distance.blocks)} and {distance.rows} rows show {shown}"
    margin = (
        f"more than {rule.margin:g}" if judgement.outcome is Outcome.FAIL else f"not surely more than {rule.margin:g}"
    )
    few = "" if distance.block_robust else "; training has too few days to know how days differ"
    return f"values are distributed unlike training's ({size}, {margin}{few})"


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


def _infinite(numbers: FeatureNumbers, judgement: Judgement, rule: SkewRule) -> str:
    shares = numbers.infinite_shares
    return f"{_percent(shares.current)} of the values are infinite, {_percent(shares.reference)} were in training"


_SENTENCES = {
    Aspect.DISTRIBUTION: _distribution,
    Aspect.MISSING: _missing,
    Aspect.UNSEEN: _unseen,
    Aspect.RANGE: _range,
    Aspect.INFINITE: _infinite,
}


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.1f} %"


def _days(blocks: int) -> str:
    return "one day" if blocks == 1 else f"{blocks} days"
