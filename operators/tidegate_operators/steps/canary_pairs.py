"""Counts a canary's answers to clients in the inference log, each beside one that the serving version gave.

In traffic mode no request is answered twice, so pairs are neighbours: each answer of the canary with the serving
version's answer to the request that came last before it. No answer is used in two pairs, which keeps pairs independent.
In the log of a group both come from the same engine, so that neither its speed nor its clock makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.away import outlast
from tidegate_operators.steps.canary_labels import Named, is_wrong, read_labels
from tidegate_operators.steps.canary_log import any_of, is_logged, not_finite
from tidegate_serving.contract.log_record import Role, output_column
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryRule

if TYPE_CHECKING:
    from tidegate_serving.inference_log.sides import Side

_REQUESTS = """
    SELECT engine, request_id, received_at AS came, bool_or(t.status <> 0) AS error,
      bool_or(t.status = 0 AND ({bad})) AS bad, max(latency_us) AS us, {wrong} AS wrong
    FROM {source} t {labels} WHERE t.role = '{role}' AND t.received_at >= $since
    GROUP BY engine, request_id, received_at
"""
"""All rows of a request have the same time; a client may send its id again."""
_BESIDE = """
    SELECT c.error AS c_error, c.bad AS c_bad, c.us AS c_us, c.wrong AS c_wrong,
      s.error AS s_error, s.bad AS s_bad, s.us AS s_us, s.wrong AS s_wrong
    FROM (SELECT * FROM canary WHERE {which}) c
    JOIN (SELECT engine, max(came) AS logged_until FROM serving GROUP BY engine) USING (engine)
    ASOF JOIN (SELECT * FROM serving WHERE {which}) s ON c.engine = s.engine AND c.came >= s.came
    WHERE c.came <= logged_until
    QUALIFY row_number() OVER (PARTITION BY s.engine, s.request_id, s.came ORDER BY c.came, c.request_id) = 1
"""
_ALONE = """
    SELECT c.error AS c_error, c.bad AS c_bad, c.us AS c_us, c.wrong AS c_wrong,
      s.error AS s_error, s.bad AS s_bad, s.us AS s_us, s.wrong AS s_wrong
    FROM (SELECT *, row_number() OVER (PARTITION BY engine ORDER BY came, request_id) AS place FROM canary
      WHERE came >= $step AND {which}) c
    JOIN (SELECT *, row_number() OVER (PARTITION BY engine ORDER BY hash(request_id, came), request_id, came) AS place
      FROM serving WHERE {which}) s
    USING (engine, place)
"""
_COUNTS = """
    SELECT count(*), count(*) FILTER (c_error AND NOT (s_error OR s_bad)),
      count(*) FILTER (c_bad AND NOT c_error AND NOT (s_error OR s_bad)),
      count(*) FILTER ((s_error OR s_bad) AND NOT (c_error OR c_bad)),
      count(*) FILTER (c_us > {factor} * s_us + {grace}), median(s_us), median(c_us),
      count(*) FILTER (c_wrong AND NOT s_wrong), count(*) FILTER (s_wrong AND NOT c_wrong)
    FROM ({pairs})
"""
_KEYS = ("compared", "errors", "not_finite", "primary_faults", "slow")


@dataclass(frozen=True, slots=True)
class StepBegun:
    """Which of the rule's shares a canary has, and since when."""

    number: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Seen:
    """What the log says by now: all answers beside the serving version's, how many came in the present step, and, where
    the canary gets everything, these beside what the serving version answered before."""

    beside: CanaryNumbers
    in_step: int
    alone: CanaryNumbers | None = None


def unnamed(version: int) -> Sequence[str]:
    """Of versions that do not name the classes of their columns."""
    return ()


def read_pairs(
    log_root: Path,
    identity: ServableId,
    primary: int,
    since: datetime,
    step: StepBegun,
    rule: CanaryRule,
    classes: Callable[[int], Sequence[str]] = unnamed,
) -> Seen:
    """The answers to requests received since `since`; zeros where nothing is logged yet. `classes` tells those of a
    version's columns, in order; it is asked where labels cannot be compared without."""
    from tidegate_serving.inference_log.reader import connect, read_again
    from tidegate_serving.inference_log.sides import sides

    versions = (primary, identity.version)
    everything = rule.shares[step.number] >= 1.0

    def named(place: int) -> tuple[Sequence[str], Sequence[str]]:
        return classes(versions[place]), classes(versions[1 - place])

    def keep(keys: str) -> None:
        by_signature = sides(connection, log_root, identity.name, versions)
        for place, name in enumerate(("serving", "canary")):
            parts, labels = [both[place] for both in by_signature], _Labels(keys, rule, partial(named, place))
            query = " UNION ALL ".join(_requests(connection, one, parts, labels) for one in parts)
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}", {"since": since.astimezone(UTC)})

    if not is_logged(log_root, identity.name, versions):
        return Seen(CanaryNumbers(), 0)
    with connect(log_root) as connection:
        keys = outlast(lambda: read_labels(connection, rule.labels))
        read_again(lambda: keep(keys))
        when = {"step": step.at.astimezone(UTC)}
        answered, in_step = connection.execute(
            "SELECT count(*), count(*) FILTER (came >= $step) FROM canary", when
        ).fetchone()
        beside = _count(connection, _BESIDE, {}, rule, answered)
        alone = _count(connection, _ALONE, when, rule, in_step) if everything else None
    return Seen(beside, in_step, alone)


@dataclass(frozen=True, slots=True)
class _Labels:
    """The `keys` that labels are found by, empty where none came, and what answers are compared with them by."""

    keys: str
    rule: CanaryRule
    named: Named


def _count(connection: Any, pairs: str, values: Mapping[str, Any], rule: CanaryRule, answered: int) -> CanaryNumbers:
    def counted(which: str) -> Any:
        query = _COUNTS.format(
            pairs=pairs.format(which=which), factor=1.0 + rule.max_slowdown, grace=rule.slowdown_grace_us
        )
        return connection.execute(query, values).fetchone()

    found = counted("true")
    labelled = counted("wrong IS NOT NULL") if rule.labels else (0,) * 9
    return CanaryNumbers(
        **dict(zip(_KEYS, found[:5], strict=True)),
        primary_latency_us=float(found[5] or 0.0),
        shadow_latency_us=float(found[6] or 0.0),
        answered=answered,
        labelled=labelled[0],
        wrong=labelled[7],
        primary_wrong=labelled[8],
    )


def _requests(connection: Any, one: Side, parts: Sequence[Side], labels: _Labels) -> str:
    """One row a request of one of the signatures; `wrong` is null where its label has not come, it was answered with an
    error, or another signature has the output that labels are compared with."""
    joined, wrong = "", "NULL::BOOLEAN"
    judged = output_column(labels.rule.quality_output)
    elsewhere = judged not in one.outputs and any(judged in other.outputs for other in parts)
    if labels.keys and not elsewhere and (one.outputs or len(parts) == 1):
        joined = f"LEFT JOIN labels l USING ({labels.keys})"
        found = is_wrong(connection, one, labels.keys, labels.rule, labels.named)
        wrong = f"avg(CASE WHEN t.status = 0 AND l.label IS NOT NULL THEN ({found})::INT END) > 0.5"
    return _REQUESTS.format(
        source=one.source,
        bad=any_of(not_finite("t", one.outputs)),
        wrong=wrong,
        labels=joined,
        role=Role.PRIMARY.value,
    )
