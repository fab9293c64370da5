"""Findings about slices, in words; nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.counts import counted, few
from tidegate_validation.quality.allowance import margin_key
from tidegate_validation.quality.metrics.gains import SERVING
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slices.attribution import Attribution
from tidegate_validation.quality.slices.gains import SliceGains, SliceTest

SLICE = "slice"
SLICE_TABLE = "slices"
_SHOWN = 5
_LISTED = 20
_DRAWN = 60


def worse_slice(attribution: Attribution, outcome: Outcome, rule: QualityRule) -> Finding:
    """A slice on which the candidate is worse: by more than the margin, or surely but perhaps by less."""
    one, gain = attribution.slice, attribution.slice.gain
    rows, searched = one.slice.rows, one.slice.searched
    examples = counted(rows, "example")
    ends = gain.between(*gain.gain.interval(rule.alpha))
    how = f"by {gain.amount(-gain.gain.value)} ({ends}; {gain.amount(one.margin)} is allowed)"
    origin = ", found by a search and confirmed on the examples that it did not see" if searched else ""
    if rows < rule.slice_rows and outcome is not Outcome.FAIL:
        origin += f"; with {counted(rule.slice_rows, 'example')} or more it would be judged"
    if outcome is Outcome.FAIL:
        sentence = f"worse than {SERVING} where `{one.name}` ({examples}): its {gain.metric} is worse {how}{origin}"
        sentence += "; look at what changed for these examples, or widen the slice's margin in the policy"
    else:
        sentence = f"where `{one.name}` ({examples}) its {gain.metric} is surely worse, {how}{origin}"
    if attribution.explains:
        share = ("other slice is worse because it shares", "other slices are worse because they share")
        sentence += f"; {counted(len(attribution.explains), *share)} its examples"
    return Finding(
        SLICE,
        one.name,
        outcome,
        sentence,
        gain.gain.value,
        gain.gain.finite_interval(rule.alpha),
        -one.margin,
        one.p_margin if outcome is Outcome.FAIL else one.p_worse,
        cause={
            "kind": "slice",
            "slice": one.name,
            "metric": gain.metric,
            "rows": rows,
            "searched": searched,
            "explains": attribution.explains[:_LISTED],
        },
        rule=f"quality.{margin_key(gain, 'slice_margin', 'slice_points', 'slice_floor', rule)}",
    )


def few_members(slices: Sequence[SliceGains], members: str, rule: QualityRule) -> Finding:
    """Slices of a handful of entities or days, of which nobody could say whether all others fare the same.

    Where the policy names one, that is not decided; where none was asked for, it only warns.
    """
    asked = [one for one in slices if any(partition.requested for partition, _ in one.literals)]
    fewest = min(asked or slices, key=lambda one: (one.members or 0, -one.rows))
    others = len(slices) - 1
    missing = rule.slice_groups - (fewest.members or 0)
    too = f" and {counted(others, 'other slice')}" if others else ""
    sentence = (
        f"`{fewest.name}`{too} cannot be judged: its {counted(fewest.rows, 'example is', 'examples are')} of "
        f"{fewest.members} {members}, and {rule.slice_groups} are needed: hold out examples of {missing} more"
    )
    cause = {"kind": "few groups", "slices": [one.name for one in slices[:_LISTED]]}
    return Finding(
        SLICE,
        fewest.name,
        Outcome.INCONCLUSIVE if asked else Outcome.WARN,
        sentence,
        number=float(fewest.members or 0),
        limit=float(rule.slice_groups),
        cause=cause,
        rule="quality.slice_groups",
    )


def more_slices(names: Sequence[str], fails: bool) -> Finding:
    """Further slices that are worse, where they are many: the fault is hardly in any one of them."""
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")
    more = counted(len(names), "more slice is", "more slices are")
    sentence = f"{more} worse than with {SERVING}: {shown}; the fault is hardly one slice's"
    cause = {"kind": "slices", "slices": list(names[:_LISTED])}
    return Finding(SLICE, "more slices", Outcome.FAIL if fails else Outcome.WARN, sentence, cause=cause)


def no_worse_slice(slices: Sequence[SliceTest], left_out: int, rule: QualityRule) -> Finding:
    """No slice is surely worse by more than its margin; says where the data could not have shown it."""
    searched = sum(one.slice.searched for one in slices)
    regions = f" and {counted(searched, 'region')} found by a search" if searched else ""
    sentence = f"none of {counted(len(slices) - searched, 'slice')}{regions} is surely worse by more than its margin"
    open_ones = [one for one in slices if one.gain.gain.interval(rule.alpha)[0] <= -one.margin]
    open_ones.sort(key=lambda one: one.gain.gain.interval(rule.alpha)[0])
    if open_ones:
        are = counted(len(open_ones), "of them is", "of them are")
        sentence += f"; {are} too small to be sure, such as `{open_ones[0].name}`"
    if left_out:
        sentence += f"; {counted(left_out, 'more was', 'more were')} left out by quality.max_slices"
    cause = {
        "kind": "undecided slices",
        "slices": [one.name for one in open_ones[:_SHOWN]],
        "left_out": left_out,
    }
    detectable = max((one.gain.gain.detectable(rule.alpha) for one in open_ones), default=None)
    return Finding(
        SLICE, "all slices", Outcome.PASS, sentence, smallest_detectable=detectable, cause=cause if open_ones else None
    )


def slice_table(slices: Sequence[SliceTest], outcomes: Mapping[str, Outcome], rule: QualityRule) -> Finding:
    """Every slice with the metric that looks worst there, for the report's forest plot; decides nothing."""
    shown = sorted(slices, key=lambda one: -one.slice.weight)[:_DRAWN]
    rows = [
        {
            "slice": one.name,
            "metric": one.gain.metric,
            "rows": one.slice.rows,
            "outcome": outcomes[one.name].value,
            "gain": one.gain.gain.value,
            "interval": list(one.gain.gain.interval(rule.alpha)),
            "margin": one.margin,
            "relative": one.gain.relative,
        }
        for one in shown
    ]
    of_them = f", the {len(shown)} least sure ones in detail" if len(shown) < len(slices) else ""
    sentence = f"{counted(len(slices), 'slice was', 'slices were')} compared{of_them}"
    return Finding(SLICE_TABLE, "every slice", Outcome.PASS, sentence, float(len(slices)), example={"slices": rows})


def empty_slices(names: Sequence[str], rule: QualityRule) -> Finding:
    """Slices that the policy names and the data does not hold."""
    sentence = (
        f"the policy names slices with fewer than {rule.slice_rows} held-out examples, so nothing is said of them: "
        f"{few([f'`{name}`' for name in names], _SHOWN)}"
    )
    return Finding(SLICE, names[0], Outcome.WARN, sentence, number=float(len(names)), limit=float(rule.slice_rows))
