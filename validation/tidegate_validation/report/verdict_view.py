"""A verdict as a page: may it serve and why, what to do, what was found, and what could not be seen."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate_serving.admission import GateResult, Outcome, Verdict
from tidegate_serving.contract import times
from tidegate_validation.outcomes import GRAVITY
from tidegate_validation.report.advice import next_steps
from tidegate_validation.report.forest import forest_of
from tidegate_validation.report.view import Seal, Tile, View, blind_spots, finding_view, top

_MEASURED = ("distribution", "missing", "unseen", "range", "infinite", "schema")


def verdict_view(verdict: Verdict, seal: Seal | None = None, now: datetime | None = None, place: str = "") -> View:
    """The page of a verdict, with what is known of its signature; `now` where it is made anew at every look.
    `place` is the version's directory, which what to do next names where the verdict is signed."""
    by_gate = {gate.gate: [finding_view(one, gate.gate) for one in gate.findings] for gate in verdict.gates}
    everything = [one for found in by_gate.values() for one in found]
    overrides = seal.overrides if seal is not None else ()
    end = _overridden_until(verdict, seal)
    return View(
        title=f"{verdict.id.name}, version {verdict.id.version}",
        outcome=verdict.outcome,
        answer=_answer(verdict, signed=seal is not None, now=now),
        sentence=verdict.sentence,
        facts=_facts(verdict, seal),
        tiles=(*(_tile(gate, verdict) for gate in verdict.gates),),
        top=top(everything),
        features=tuple(one for one in by_gate.get("skew", ()) if one.finding.check in _MEASURED),
        checks=tuple((gate, tuple(found)) for gate, found in by_gate.items() if found),
        blind_spots=blind_spots(everything),
        notes=verdict.notes,
        push=push_words(verdict, seal, signed=seal is not None, now=now),
        overrides=overrides,
        steps=next_steps(verdict, place=place, signed=seal is not None, overridden_until=end),
        forest=forest_of(verdict.gates),
    )


def _answer(verdict: Verdict, *, signed: bool, now: datetime | None) -> str:
    if not verdict.allowed:
        return "This version may not serve."
    if not signed:
        return "This version may serve, once its verdict is signed."
    return "This version was allowed to serve." if _is_over(verdict, now) else "This version may serve."


def _is_over(verdict: Verdict, now: datetime | None) -> bool:
    """Whether it can be seen that the verdict admits nothing any more."""
    return now is not None and times.from_text(verdict.expires_at, "the end of a verdict") <= now


def push_words(verdict: Verdict, seal: Seal | None = None, *, signed: bool = True, now: datetime | None = None) -> str:
    """Whether it may be pushed, and because of what, in one line; no engine takes a verdict that is not `signed`. `now`
    is for words that are made anew at every look: from them it can be seen that the verdict is over."""
    if verdict.allowed:
        warned = [gate.gate for gate in verdict.gates if gate.outcome is not Outcome.PASS]
        why = f"no gate denies it; {', '.join(warned)} with a note" if warned else "every gate passes"
        if not signed:
            return f"Push allowed: no, because nothing is signed; else yes, because {why}."
        if _is_over(verdict, now):
            ended = _moment(verdict.expires_at)
            return f"Push allowed: no, because the verdict ended {ended}: ask for a release for a new one."
        return f"Push allowed: yes, because {why}, until {_moment(verdict.expires_at)}."
    denials = ", ".join(f"{gate} is {_came_out(verdict, gate)}" for gate in verdict.denied_by)
    end = _overridden_until(verdict, seal)
    if end is not None:
        return f"Push allowed: only by override, until {end}; else no, because {denials}."
    return f"Push allowed: no, because {denials}."


def _overridden_until(verdict: Verdict, seal: Seal | None) -> str | None:
    """When the first of the overrides ends, None unless each no is overridden."""
    overridden = {line.gate: line.expires_at for line in (seal.overrides if seal is not None else ())}
    if verdict.allowed or not set(verdict.denied_by) <= set(overridden):
        return None
    return _moment(min(overridden[gate] for gate in verdict.denied_by))


def _moment(text: str) -> str:
    """A document's time as people read it."""
    return f"{times.from_text(text, 'a time of the verdict').astimezone(UTC):%-d %b %Y %H:%M} UTC"


def _came_out(verdict: Verdict, name: str) -> str:
    gate = verdict.gate(name)
    return "required and did not run" if gate is None else gate.outcome.value


def _facts(verdict: Verdict, seal: Seal | None) -> tuple[tuple[str, str], ...]:
    return (
        ("Manifest", verdict.manifest_digest),
        ("Signed with", f"key {seal.key}" if seal is not None else "no key: this page is of an unsigned verdict"),
        *((("Verdict file", seal.digest),) if seal is not None else ()),
        ("Compared with", verdict.baseline or "nothing: a first version"),
        ("Evaluation data", verdict.data_digest),
        ("Configuration", verdict.config_digest),
        ("Judged by", f"Tidegate {verdict.tool_version}"),
        ("Issued", _moment(verdict.issued_at)),
        *((("Admits until", _moment(verdict.expires_at)),) if seal is not None else ()),
    )


def _tile(gate: GateResult, verdict: Verdict) -> Tile:
    counts = tuple((outcome, sum(one.outcome is outcome for one in gate.findings)) for outcome in GRAVITY)
    present = tuple(pair for pair in counts if pair[1])
    denies = gate.gate in verdict.denied_by
    return Tile(gate.gate, gate.outcome, gate.sentence, present, round(gate.seconds, 1), denies)
