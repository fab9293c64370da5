"""Rows of which nobody can tell when they were: they count for no day."""

from __future__ import annotations

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.statistics.event_times import without_time
from tidegate_validation.statistics.relation import Relation

CHECK = "event times"
_WARNED = 0.01
"""Up to one in a hundred is what happens anywhere."""


def told_of_untimed(timed: Relation, time: str | None, what: str) -> list[Finding]:
    """How many rows of a relation have no time, a WARN beyond 1 %; none where all have one. `what` names its role."""
    rows = 0 if time is None else without_time(timed, time)
    if time is None or not rows:
        return []
    share = rows / timed.rows
    verb = "has" if rows == 1 else "have"
    of_all = f"{rows:,} of {timed.rows:,} rows ({100 * share:.2f} %)"
    sentence = f"`{time}`: {of_all} of the {what} {verb} no time that can be read"
    outcome = Outcome.WARN if share > _WARNED else Outcome.PASS
    cause = {"kind": "no time", "share": round(share, 4)}
    return [Finding(CHECK, time, outcome, sentence, number=share, limit=_WARNED, cause=cause)]
