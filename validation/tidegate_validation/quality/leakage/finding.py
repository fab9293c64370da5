"""Findings about candidates that are too good to be true, in words."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.investigation import Suspect, Suspicion
from tidegate_validation.quality.metrics.gains import EVERYTHING, SERVING, measure
from tidegate_validation.quality.rule import QualityRule

TOO_GOOD = "too good"
LEAK = "leak"
_TRUST = "list it under quality.trusted in the policy"
_TRUST_THEM = "list them under quality.trusted in the policy"


def believable(evaluation: Evaluation, power: float, limit: float) -> Finding:
    """Not too good."""
    sentence = f"{measure(evaluation)} {power:.3f} is believable, {limit:.3f} would not be"
    return Finding(TOO_GOOD, EVERYTHING, Outcome.PASS, sentence, number=power, limit=limit)


def tells(
    evaluation: Evaluation,
    told: Mapping[str, float],
    power: float,
    left: tuple[float, float] | None,
    rule: QualityRule,
) -> Finding:
    """Inputs that each tell the label, by what each can do alone, the first named; `left` is what the candidate reaches
    with them, and with their values shuffled: it makes nothing of them where that is as much, by the margin."""
    name, alone = max(told.items(), key=lambda one: one[1])
    others = len(told) - 1
    more = f", as {others} more input{'s do' if others > 1 else ' does'}" if others else ""
    cause: dict[str, object] = {"kind": LEAK, "feature": name, "alone": alone}
    if left is None or left[0] - left[1] <= rule.margin:
        made = f", of which the candidate makes nothing ({power:.3f})"
    else:
        whose = "their" if others else "its"
        made = f"; with {whose} values shuffled, {left[1]:.3f} is left of the candidate's {left[0]:.3f}"
        cause["without"] = left[1]
    sentence = (
        f"`{name}` alone tells the label of the held-out examples ({measure(evaluation)} {alone:.3f}){more}{made}: see "
        f"that it is known before the label is, or leave it out (if it is, {_TRUST})"
    )
    return Finding(TOO_GOOD, name, Outcome.WARN, sentence, number=alone, cause=cause)


def give_away(
    evaluation: Evaluation, told: Mapping[str, float], left: tuple[float, float], outcome: Outcome
) -> Finding:
    """Inputs that each tell the label, without which the candidate loses most it can: copies of one, which fail, or
    ones that were measured apart, of which it is told."""
    names = sorted(told, key=lambda name: -told[name])
    shown = ", ".join(f"`{name}`" for name in names[:4]) + (" ..." if len(names) > 4 else "")
    opening, cure = "too good to be true:", f"they seem to know the label (if they do not, {_TRUST_THEM})"
    if outcome is Outcome.WARN:
        opening, cure = (
            "too good to be true?",
            f"see that they are known before the label is (if they are, {_TRUST_THEM})",
        )
    sentence = (
        f"{opening} {measure(evaluation)} {left[0]:.3f}: each of {shown} reaches up to {told[names[0]]:.3f} "
        f"alone, and without them {left[1]:.3f} is left; {cure}"
    )
    cause = {"kind": LEAK, "feature": names[0], "alone": told[names[0]], "without": left[1], "features": names}
    return Finding(TOO_GOOD, names[0], outcome, sentence, number=left[0], cause=cause)


def by_heart(evaluation: Evaluation, power: tuple[float, float]) -> Finding:
    """The candidate knows the held-out examples themselves: its power, and what is left of it with numbers nudged."""
    sentence = (
        f"too good to be true: {measure(evaluation)} {power[0]:.3f}, of which {power[1]:.3f} is left where numbers "
        "move by a ten-thousandth of their spread: it knows the held-out examples by heart; train it without "
        "them, or hold out others"
    )
    cause = {"kind": "by heart", "without": power[1]}
    return Finding(TOO_GOOD, EVERYTHING, Outcome.FAIL, sentence, number=power[0], cause=cause)


def partial(name: str, where: str, share: float, alone: float, rule: QualityRule) -> Finding:
    """An input that gives the label away in a part of the rows."""
    trusted = name in rule.trusted
    cure = "the policy trusts it" if trusted else f"it seems to know the label there (if it does not, {_TRUST})"
    there = f"{where} ({100 * share:.1f} % of the examples, {alone:.3f} alone)"
    sentence = f"`{name}` tells the label {there}, and the candidate lives on that; {cure}"
    return Finding(
        TOO_GOOD,
        name,
        Outcome.WARN if trusted else Outcome.FAIL,
        sentence if trusted else f"too good to be true: {sentence}",
        number=share,
        limit=rule.leak_share,
        cause={"kind": LEAK, "feature": name, "where": where, "share": share, "alone": alone},
        rule="quality.leak_share",
    )


def too_good(
    evaluation: Evaluation,
    power: float,
    reference: float | None,
    limit: float,
    suspicion: Suspicion,
    rule: QualityRule,
) -> Finding:
    """Too good to be true, with the input that gives the answer away where one does.

    A first version has no `reference` to be measured against: unless one input alone gives the answer away it is a
    WARN, since the task may just be easy.
    """
    first = reference is None
    against = "" if reference is None else f" where {SERVING} reaches {reference:.3f}"
    values = f"{measure(evaluation)} {power:.3f}{against}"
    suspect = suspicion.suspect
    if suspicion.honest:
        sentence = f"{values}, as honest trees do with the inputs of both versions ({suspicion.learners:.3f})"
        return Finding(TOO_GOOD, EVERYTHING, Outcome.PASS, sentence, number=power, limit=limit)
    if suspect is None:
        why = "and no one input explains it; was it trained on the held-out data?"
        sentence = f"too good to be true: {values}, {why}"
        outcome = Outcome.WARN if first else Outcome.FAIL
        return Finding(TOO_GOOD, EVERYTHING, outcome, sentence, number=power, limit=limit)
    trusted = suspect.name in rule.trusted
    weak = first and suspect.alone < rule.single_feature_limit
    if weak:
        opening, why = "too good to be true?", _lives_on(suspect, limit)
        cure = f"make sure that it is known before the label is (if it is, {_TRUST})"
    else:
        opening, why = "too good to be true:", _gives_away(suspect, first)
        cure = f"it seems to know the label (if it does not, {_TRUST})"
    sentence = f"{values}{why}; the policy trusts it" if trusted else f"{opening} {values}{why}; {cure}"
    cause = {"kind": LEAK, "feature": suspect.name, "alone": suspect.alone, "without": suspect.without}
    return Finding(
        check=TOO_GOOD,
        subject=suspect.name,
        outcome=Outcome.WARN if trusted or weak else Outcome.FAIL,
        sentence=sentence,
        number=power,
        limit=limit,
        cause=cause,
    )


def _gives_away(suspect: Suspect, first: bool) -> str:
    kind = ", an input that version does not have," if suspect.new and not first else ""
    return f": `{suspect.name}`{kind} reaches {suspect.alone:.3f} alone, and without it {suspect.without:.3f} is left"


def _lives_on(suspect: Suspect, limit: float) -> str:
    """What an input does that alone gives nothing away; a text, say, can do nothing alone, as it is no number."""
    return (
        f", where {limit:.2f} is the most that is expected of a first version, and it lives on `{suspect.name}`: "
        f"{suspect.without:.3f} is left where its values are shuffled"
    )
