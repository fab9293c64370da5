"""Counts a canary's answers to clients in the inference log, each beside one that the serving version gave.

In traffic mode no request is answered twice, so pairs are neighbours: each answer of the canary with the serving
version's answer to the request that came last before it. No answer is used in two pairs, which keeps pairs independent.
In the log of a group both come from the same engine, so that neither its speed nor its clock makes a difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tidegate_operators.steps.away import outlast
from tidegate_operators.steps.canary_log import Side, any_of, not_finite, side
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unavailable
from tidegate_serving.contract.log_record import OUTPUT_PREFIX, REQUEST_ID, ROW, Role, output_column
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryRule
from tidegate_validation.statistics.sql import text_literal

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
_NEWEST_LABELS = """
    CREATE TEMP TABLE labels AS SELECT {names}, last(label ORDER BY {at} filename, file_row_number) AS label
    FROM {source} WHERE label IS NOT NULL GROUP BY {keys}
"""
"""Of several labels for one request, or one of its rows, that with the newest `at`, where there is one, then that of
the last file."""
_AT = "at"


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


def read_pairs(
    log_root: Path, identity: ServableId, primary: int, since: datetime, step: StepBegun, rule: CanaryRule
) -> Seen:
    """The answers to requests received since `since`; zeros where nothing is logged yet."""
    from tidegate_serving.inference_log.reader import connect, read_again, scan

    try:
        served, tried = (
            scan(log_root, identity.name, version, by_engine=True) for version in (primary, identity.version)
        )
    except NotFound:
        return Seen(CanaryNumbers(), 0)
    everything = rule.shares[step.number] >= 1.0
    with connect(log_root) as connection:
        keys = outlast(lambda: _read_labels(connection, rule.labels))
        for name, source in (("serving", served), ("canary", tried)):
            read_again(partial(_keep, connection, name, source, since, rule, keys))
        when = {"step": step.at.astimezone(UTC)}
        answered, in_step = connection.execute(
            "SELECT count(*), count(*) FILTER (came >= $step) FROM canary", when
        ).fetchone()
        beside = _count(connection, _BESIDE, {}, rule, answered)
        alone = _count(connection, _ALONE, when, rule, in_step) if everything else None
    return Seen(beside, in_step, alone)


def _keep(connection: Any, name: str, source: str, since: datetime, rule: CanaryRule, keys: str) -> None:
    query = _requests(connection, side(connection, source), rule, keys)
    connection.execute(f"CREATE TEMP TABLE {name} AS {query}", {"since": since.astimezone(UTC)})


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


def _requests(connection: Any, one: Side, rule: CanaryRule, keys: str) -> str:
    """One row a request; `wrong` is null where its label has not come or it was answered with an error."""
    labels, wrong = "", "NULL::BOOLEAN"
    if keys:
        labels = f"LEFT JOIN labels l USING ({keys})"
        is_wrong = _is_wrong(connection, one, rule)
        wrong = f"avg(CASE WHEN t.status = 0 AND l.label IS NOT NULL THEN ({is_wrong})::INT END) > 0.5"
    return _REQUESTS.format(
        source=one.source,
        bad=any_of(not_finite("t", one.outputs)),
        wrong=wrong,
        labels=labels,
        role=Role.PRIMARY.value,
    )


def _read_labels(connection: Any, place: str) -> str:
    """Puts the labels that came into a table and tells the columns that rows are found by; nothing where none came.
    Where some labels name a row, one that does not is that of the first.

    Naming the labels: InvalidInput where they lack a column, Unavailable where a file cannot be read, which may only be
    half written.
    """
    from tidegate_serving.inference_log.reader import duckdb_module

    files = _label_files(Path(place)) if place else []
    if not files:
        return ""
    names = ", ".join(text_literal(str(file)) for file in files)
    source = f"read_parquet([{names}], union_by_name = true, filename = true, file_row_number = true)"
    duckdb = duckdb_module()
    try:
        columns = [row[0] for row in connection.execute(f"DESCRIBE FROM {source}").fetchall()]
        if missing := [name for name in (REQUEST_ID, "label") if name not in columns]:
            raise InvalidInput(f"the labels {place} have no column {missing[0]!r}: they have {', '.join(columns[:-2])}")
        found_by = {REQUEST_ID: f"{REQUEST_ID}::VARCHAR"} | (
            {ROW: f"coalesce({ROW}::BIGINT, 0)"} if ROW in columns else {}
        )
        named = ", ".join(f"{value} AS {name}" for name, value in found_by.items())
        at = f'"{_AT}" NULLS FIRST,' if _AT in columns else ""
        keys = ", ".join(found_by)
        grouped = ", ".join(str(place) for place in range(1, len(found_by) + 1))
        connection.execute(_NEWEST_LABELS.format(names=named, at=at, source=source, keys=grouped))
    except duckdb.Error as error:
        why, _, _ = str(error).partition("\n")
        raise Unavailable(f"the labels {place} cannot be read ({why}): write them anew as Parquet") from error
    return keys


def _label_files(path: Path) -> list[Path]:
    """A file that has not come yet is waited for."""
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path] if path.is_file() else []


def _is_wrong(connection: Any, one: Side, rule: CanaryRule) -> str:
    """SQL for whether an answer is not its label; of two real numbers a row the second is that of a yes."""
    from tidegate_serving.inference_log.compare import elements, is_real

    names = [output_column(rule.quality_output)] if rule.quality_output else list(one.outputs)
    if len(names) != 1 or names[0] not in one.outputs:
        known = ", ".join(name.removeprefix(OUTPUT_PREFIX) for name in one.outputs)
        raise InvalidInput(
            f"a canary's quality_output is {rule.quality_output!r}: name the output that labels are "
            f"compared with, one of {known}"
        )
    kind, output = one.outputs[names[0]], names[0].removeprefix(OUTPUT_PREFIX)
    numbers = elements(f"t.{chr(34)}{names[0]}{chr(34)}", kind)
    most = 2 if is_real(kind) else 1
    widest = connection.execute(f"SELECT max(len({numbers})) FROM {one.source} t").fetchone()[0] or 1
    if widest > most:
        raise InvalidInput(
            f"output {output!r} has {widest} values a row, of which none is the answer that labels are compared with: "
            "name one with a value a row as quality_output, or with the probabilities of no and yes"
        )
    if not is_real(kind):
        return f"({numbers})[1]::VARCHAR <> l.label::VARCHAR"
    text = connection.execute("SELECT any_value(label) FROM labels WHERE TRY_CAST(label AS DOUBLE) IS NULL").fetchone()
    if text[0] is not None:
        raise InvalidInput(
            f"label {str(text[0])!r} of {rule.labels} is no number, and output {output!r} is one: write 0 or 1, or "
            "name the output with the class as quality_output"
        )
    return f"(({numbers})[-1]::DOUBLE >= 0.5) <> (l.label::DOUBLE >= 0.5)"
