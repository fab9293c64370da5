"""Judges each past release as the gates would have on its day: by the labelled rows before it, against what served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tidegate_serving.admission import GateResult, Outcome
from tidegate_serving.contract.errors import TidegateError
from tidegate_validation.backtest.history import History, PastRelease, day_text
from tidegate_validation.backtest.result import ReleaseTrial
from tidegate_validation.evidence import Evidence
from tidegate_validation.gates import PROFILE, run_gates
from tidegate_validation.policy import Policy
from tidegate_validation.quality.gate import NO_ANSWER
from tidegate_validation.report.advice import losing_slice


def try_releases(
    history: History, releases: Sequence[PastRelease], policy: Policy, gates: Sequence[str], days: tuple[int, int]
) -> list[ReleaseTrial]:
    """One trial per release, in their order; `days` are how many before it count, and how many days later a label is
    known."""
    limited = replace(policy, run=tuple(gates), required=tuple(gates))
    before: list[PastRelease | None] = [None, *releases]
    return [_try(history, one, serving, limited, days) for serving, one in pairwise(before) if one is not None]


def _try(
    history: History, one: PastRelease, serving: PastRelease | None, policy: Policy, days: tuple[int, int]
) -> ReleaseTrial:
    against = None if serving is None else serving.name
    most, delay = days
    rows = history.labelled(one.day - delay - most, one.day - delay)
    if history.label is None or rows.num_rows < policy.quality.min_rows:
        known = "no labels are known" if history.label is None else f"{rows.num_rows} labelled rows"
        sentence = f"{known} in the {most} days before it, {policy.quality.min_rows} are needed"
        return ReleaseTrial(one.name, day_text(one.day), against, None, None, sentence, rows=rows.num_rows)
    evidence = Evidence(
        held_out=rows,
        label=history.label,
        baseline=None if serving is None else serving.directory,
        policy=policy,
    )
    try:
        verdict = run_gates(one.directory, evidence)
    except TidegateError as error:
        return ReleaseTrial(one.name, day_text(one.day), against, None, None, error.message, rows=rows.num_rows)
    denying = [gate for gate in verdict.gates if gate.gate in verdict.denied_by]
    blind = [gate for gate in denying if _could_not_judge(gate)]
    trial = ReleaseTrial(
        name=one.name,
        released=day_text(one.day),
        against=against,
        outcome=verdict.outcome.value,
        refused=not verdict.allowed,
        sentence=verdict.sentence,
        reasons=tuple(_reason(gate) for gate in denying if gate not in blind),
        rows=rows.num_rows,
    )
    if not blind or trial.reasons:
        return trial
    unseen = "; ".join(f"the {gate.gate} gate had nothing to judge by: {gate.sentence}" for gate in blind)
    others = [gate for gate in verdict.gates if gate not in blind]
    told = "".join(f"{gate.gate}: {gate.sentence}; " for gate in others)
    if not any(gate.gate == "quality" for gate in others):
        return replace(trial, outcome=None, refused=None, sentence=told + unseen, unseen=unseen)
    return replace(trial, outcome=Outcome.WARN.value, refused=False, sentence=told + unseen, unseen=unseen)


def _reason(gate: GateResult) -> str:
    """Why a gate denies a release, with the slice that lost most."""
    where = losing_slice(gate)
    known = where is None or where in gate.sentence
    return f"{gate.gate}: {gate.sentence}{'' if known else f'; look first at the examples where `{where}`'}"


def _could_not_judge(gate: GateResult) -> bool:
    """Whether it denies for want of the training profile, because it broke down, or because the version cannot be asked
    here, where it did serve; not for what it saw."""
    denying = [finding for finding in gate.findings if finding.outcome is gate.outcome]
    blind = all(finding.subject == PROFILE or finding.check == NO_ANSWER for finding in denying)
    return gate.outcome is Outcome.ERROR or (bool(denying) and blind)
