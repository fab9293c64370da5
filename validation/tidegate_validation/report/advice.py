"""What to do next, in a few sentences: per gate that says no, and for a version that may go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict

_ON_FAIL = {
    "expectations": "Mend the data, or, where the world has changed, edit the suite and publish under a new number.",
    "quality": "Retrain, or look first at the examples {where}; where the loss is wanted, widen the margin in the "
    "policy.",
    "robustness": "Mend the model's code for the input that the finding shows, and publish under a new number.",
    "skew": "Mend the feature that the finding names, where it is wrong: in training or in serving; publish again.",
}

_SIGN = (
    "Validate it with a signing key (`tidegate validate --key`) once it is published (`tidegate publish`), so that an "
    "engine can admit it."
)


def next_steps(
    verdict: Verdict, *, place: str, signed: bool = True, overridden_until: str | None = None
) -> tuple[str, ...]:
    """Sentences in the order in which to act.

    `place` is the version's directory, `signed` whether an engine could admit it for this verdict, `overridden_until`
    when the overrides end that let it in all the same.
    """
    if verdict.allowed:
        return (*_look(verdict), *(_push(verdict, place) if signed else (_SIGN,)))
    steps = [step for gate in verdict.denied_by for step in _mend(verdict, gate)]
    if overridden_until is not None:
        steps.append(f"Be done with it before the override ends at {overridden_until}: it will not load again after.")
    elif signed:
        gates = " ".join(f"--gate {gate}" for gate in verdict.denied_by)
        steps.append(
            "Meanwhile the version that serves goes on serving. Where it cannot wait, whoever the policy names may run "
            f"`tidegate override {shlex.quote(place)} {gates} --reason ... --expires 4h --key ... --policy ...`."
        )
    return tuple(dict.fromkeys(steps))


def _look(verdict: Verdict) -> Iterator[str]:
    warned = [gate.gate for gate in verdict.gates if gate.outcome is not Outcome.PASS]
    if warned:
        yield f"Read what the {' and '.join(warned)} gate{'s have' if len(warned) > 1 else ' has'} to say below."
    if verdict.first:
        yield "It was compared with nothing: watch the first hours, and keep what it answers for the next version."


def _push(verdict: Verdict, place: str) -> Iterator[str]:
    version = f"{verdict.id.name} {verdict.id.version}"
    yield (
        f"Push it with `tidegate push {shlex.quote(place)}`, compare it on live traffic with `tidegate canary "
        f"{version}`, then run `tidegate promote {version}`."
    )


def _mend(verdict: Verdict, name: str) -> Iterator[str]:
    gate = verdict.gate(name)
    if gate is None:
        yield f"Run the {name} gate: the policy requires it, and it did not run; put it into the policy's `run`."
    elif gate.outcome is Outcome.ERROR:
        yield f"The {name} gate could not finish, which says nothing about the model: mend its cause, validate again."
    elif gate.outcome is Outcome.INCONCLUSIVE:
        yield _more(gate)
    else:
        words = _ON_FAIL.get(name, f"Mend what the {name} gate found, and publish under a new number.")
        yield words.replace("{where}", _where(gate))
        yield from (f"Try the failing input again: `{command}`." for command in _replays(gate))


def losing_slice(gate: GateResult) -> str | None:
    """The weightiest slice that fails; None where the loss is in many slices, or in none that is known."""
    causes = [one.cause or {} for one in gate.findings if one.outcome is Outcome.FAIL]
    slices = [cause["slice"] for cause in causes if cause.get("kind") == "slice"]
    if not slices or any(cause.get("kind") == "slices" for cause in causes):
        return None
    return str(slices[0])


def _where(gate: GateResult) -> str:
    """Which examples lost."""
    where = losing_slice(gate)
    return "that the findings name" if where is None else f"where `{where}`"


def _more(gate: GateResult) -> str:
    needed = max((one.rows_needed for one in gate.findings if one.rows_needed), default=None)
    if needed is not None:
        return f"Give the {gate.gate} gate about {needed:,} examples: with fewer it cannot tell."
    return f"Give the {gate.gate} gate more to go by: {gate.sentence}."


def _replays(gate: GateResult) -> list[str]:
    found = [command for one in gate.findings if one.outcome is Outcome.FAIL and (command := _replay(one)) is not None]
    return found[:1]


def _replay(finding: Finding) -> str | None:
    command = (finding.example or {}).get("replay")
    return command if isinstance(command, str) else None
