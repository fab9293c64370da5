"""A window of examples as a relation that SQL can count: rows of the inference log, or a table held out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.log_record import (
    EVENT_TIME,
    INPUT_PREFIX,
    OUTPUT_PREFIX,
    RECEIVED_AT,
    REQUEST_ID,
    ROLE,
    ROW,
    SIGNATURE,
    STATUS,
    Role,
)
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.inference_log.reader import read_again, scan, unlogged_columns
from tidegate_validation.statistics.blocks import ROW_INDEX, day_of, window_chunk_of
from tidegate_validation.statistics.counting import types_of
from tidegate_validation.statistics.relation import Relation, connected, relation_of_table
from tidegate_validation.statistics.sql import as_number, quote, text_literal

_VIEW = "tidegate_window"
_SECONDS = "tidegate_seconds"
_MOMENT = "tidegate_moment"


@dataclass(frozen=True, slots=True)
class Window:
    """Rows of `relation` on `connection`: `types` by column, `columns` by feature, `block` as SQL, `rows` in all.

    `event_time` is the column with the time of each row, None where there is none, and `moment` that with the time of
    the event alone, which a log that knows only when its rows arrived does not have. `unlogged` are features that the
    log does not have as they were asked, by its configuration: `hash` or `omit` by name. `named` gives SQL for the
    same rows with REQUEST_ID and ROW, by which a log's rows are found again, from the files that it has by then: call
    it within `read_again`. None where rows have no names. `some` names a sample of the rows where one was drawn.
    """

    connection: Any
    relation: str
    types: Mapping[str, str]
    columns: Mapping[str, str]
    block: str
    rows: int
    event_time: str | None = None
    moment: str | None = None
    unlogged: Mapping[str, str] = field(default_factory=dict)
    named: Callable[[], str] | None = None
    some: str = ""


@contextmanager
def log_window(
    log_root: Path,
    *,
    model: str,
    version: int | None,
    since: datetime | None = None,
    until: datetime | None = None,
    received_since: datetime | None = None,
    role: str = "primary",
) -> Iterator[Window]:
    """The logged inputs of a model, of one version or of all, from `since` up to but without `until`; where a
    version was asked by several signatures, those of `serving_default`, which gates judge, else of its first by name.

    These are compared with the time of the event, else of arrival; `received_since` bounds the time of arrival alone.
    A log without a file is a window without rows.
    """
    import duckdb

    def read() -> Window:
        logged = judged_rows(connection, log_root, model, version)
        types, time = logged.types, _time(logged.types)
        wanted = [f"{quote(ROLE)} = '{_role(role)}'", *_limits(time, since, until), *_arrived(types, received_since)]
        rules = unlogged_columns(log_root, model, version)
        unlogged = {name[len(INPUT_PREFIX) :]: rule for name, rule in rules.items() if name.startswith(INPUT_PREFIX)}
        named = {name[len(INPUT_PREFIX) :]: name for name in types if name.startswith(INPUT_PREFIX)}
        inputs = {name: column for name, column in named.items() if name not in unlogged}
        values = [_scalar(connection, logged.source, column, types[column]) for column in inputs.values()]
        moment = [f"{as_number(EVENT_TIME, types[EVENT_TIME])} AS {_MOMENT}"] if EVENT_TIME in types else []
        kept = ", ".join([f"{time} AS {_SECONDS}", *moment, *values])
        limits = " AND ".join([*wanted, *logged.judged])
        connection.execute(f"CREATE TEMP TABLE {_VIEW} AS SELECT {kept} FROM {logged.source} WHERE {limits}")
        rows = connection.execute(f"SELECT count(*) FROM {_VIEW}").fetchall()[0][0]
        types = types_of(connection, _VIEW)
        block, known = day_of(_SECONDS, types), _MOMENT if moment else None

        def identified() -> str:
            source = scan(log_root, model, version, signatures=logged.signatures)
            return f"(SELECT {kept}, {quote(REQUEST_ID)}, {quote(ROW)} FROM {source} WHERE {limits})"

        return Window(connection, _VIEW, types, inputs, block, rows, _SECONDS, known, unlogged, identified)

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        try:
            window = read_again(read)
        except NotFound:
            window = Window(connection, "", {}, {}, "0", 0)
        yield window


def logged_answers(
    log_root: Path,
    *,
    model: str,
    version: int,
    since: datetime | None = None,
    until: datetime | None = None,
    received_since: datetime | None = None,
    role: str = "primary",
) -> Any:
    """The first output of a version where it is one number, truth value or text a row, as a pyarrow.Table of answered
    rows: request_id, row, day, answer, inside. None without rows, or where there is no such output.

    `inside` says that a row is from `since` up to but without `until`, with times as for `log_window`; rows before
    are there too, later ones are not.
    """
    import duckdb

    def read() -> Any:
        logged = judged_rows(connection, log_root, model, version)
        types, source = logged.types, logged.source
        rules = unlogged_columns(log_root, model, version)
        outputs = [name for name in types if name.startswith(OUTPUT_PREFIX) and name not in rules]
        if not outputs:
            return None
        time, answer = _time(types), _scalar(connection, source, outputs[0], types[outputs[0]]).partition(" AS ")[0]
        inside = " AND ".join([*_limits(time, since, None), *_arrived(types, received_since)]) or "true"
        wanted = [f"{quote(ROLE)} = '{_role(role)}'", f"{quote(STATUS)} = 0", *_limits(time, None, until)]
        wanted += logged.judged
        columns = (
            f"{quote(REQUEST_ID)} AS request_id, {quote(ROW)} AS row, CAST(floor({time} / 86400) AS BIGINT) AS day"
        )
        query = (
            f"SELECT {columns}, {answer} AS answer, {inside} AS inside FROM {source} "
            f"WHERE {' AND '.join(wanted)} AND {answer} IS NOT NULL ORDER BY ALL"
        )
        found = connection.sql(query).to_arrow_table()
        return found.replace_schema_metadata({"output": outputs[0].removeprefix(OUTPUT_PREFIX)})

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        try:
            found = read_again(read)
        except NotFound:
            return None
    if found is None or not found.num_rows or found.schema.field("answer").type.num_fields:
        return None
    return found


def count_logged(log_root: Path, model: str, requests: Collection[str]) -> int:
    """How many of these request ids the log has, of whatever version of a model and whatever time."""
    import duckdb
    import pyarrow as pa

    try:
        source = scan(log_root, model, None)
    except NotFound:
        return 0
    with duckdb.connect() as connection:
        connection.register("asked", pa.table({"id": pa.array(requests, pa.string())}))
        query = f"SELECT count(*) FROM asked WHERE id IN (SELECT {quote(REQUEST_ID)} FROM {source})"
        return int(read_again(lambda: connection.execute(query).fetchall())[0][0])


@contextmanager
def table_window(table: Any, *, event_time: str | None, like: float | None = None) -> Iterator[Window]:
    """All rows of a pyarrow.Table, held-out data in messages; blocks are days of `event_time` where there is such a
    column, else chunks of about `like` rows, as the blocks have that it is compared with."""
    with connected() as connection:
        yield window_of(relation_of_table(connection, _VIEW, table, "held-out data"), event_time=event_time, like=like)


def window_of(relation: Relation, *, event_time: str | None, like: float | None = None) -> Window:
    """All rows of a relation; blocks as in `table_window`."""
    has_time = event_time is not None and event_time in relation.types
    relation = relation if has_time else relation.numbered(f"{relation.name}_numbered")
    block = day_of(str(event_time), relation.types) if has_time else window_chunk_of(relation.rows, like)
    columns = {name: name for name in relation.types if name != ROW_INDEX}
    time = event_time if has_time else None
    connection, name, rows, types = relation.connection, relation.name, relation.rows, relation.types
    return Window(connection, name, types, columns, block, rows, time, time, some=relation.some)


def _role(name: str) -> str:
    if name not in list(Role):
        raise InvalidInput(f"role {name!r} is unknown: use one of {', '.join(Role)}")
    return name


class JudgedRows(NamedTuple):
    """SQL for a log's rows, of one signature of each version where the log has several of one; the tests that keep out
    rows of others that lie in the same files; the columns without those of others, which are null in its rows, with
    their types; and the signatures as `scan` takes them."""

    source: str
    judged: list[str]
    types: dict[str, str]
    signatures: Mapping[int, str] | None = None


def judged_rows(connection: Any, log_root: Path, model: str, version: int | None) -> JudgedRows:
    """The rows that gates judge: of several signatures of a version those of `serving_default`, else of the first by
    name. To be called, with what reads the rows, within one `read_again`: its files may go, and others have their rows.
    NotFound as `scan`.
    """
    source = scan(log_root, model, version)
    types = types_of(connection, source)
    if SIGNATURE not in types:
        return JudgedRows(source, [], types)
    pair = f"version, {quote(SIGNATURE)}"
    query = f"SELECT DISTINCT {pair} FROM {source} WHERE {quote(SIGNATURE)} IS NOT NULL ORDER BY ALL"
    asked: dict[int, list[str]] = {}
    for number, name in connection.execute(query).fetchall():
        asked.setdefault(number, []).append(name)
    if all(len(names) < 2 for names in asked.values()):
        return JudgedRows(source, [], types)
    chosen = {number: SERVING_DEFAULT if SERVING_DEFAULT in names else names[0] for number, names in asked.items()}
    source = scan(log_root, model, version, signatures=chosen)
    types = types_of(connection, source)
    values = [name for name in types if name.startswith((INPUT_PREFIX, OUTPUT_PREFIX))]
    judged = f"({pair}) IN ({', '.join(f'({number}, {text_literal(name)})' for number, name in chosen.items())})"
    counts = ", ".join(["count(*)", *(f"count({quote(name)})" for name in values)])
    _, *known = connection.execute(f"SELECT {counts} FROM {source} WHERE {judged}").fetchall()[0]
    others = {name for name, count in zip(values, known, strict=True) if not count}
    return JudgedRows(source, [judged], {name: kind for name, kind in types.items() if name not in others}, chosen)


def _scalar(connection: Any, source: str, column: str, sql_type: str) -> str:
    """SQL for a logged input; the only element of lists of one, which inputs of shape [n, 1] are logged as."""
    name = quote(column)
    if sql_type.endswith("[]"):
        query = f"SELECT coalesce(max(len({name})), 0) FROM {source}"
        if connection.execute(query).fetchall()[0][0] == 1:
            return f"{name}[1] AS {name}"
    return name


def _time(types: Mapping[str, str]) -> str:
    """SQL for the event's Unix seconds, or those of arrival where a row has no event time."""
    known = [as_number(name, types[name]) for name in (EVENT_TIME, RECEIVED_AT) if name in types]
    if not known:
        raise InvalidInput(f"the inference log has neither {EVENT_TIME} nor {RECEIVED_AT}: check the path")
    return f"coalesce({', '.join(known)})"


def _arrived(types: Mapping[str, str], since: datetime | None) -> list[str]:
    return _limits(as_number(RECEIVED_AT, types[RECEIVED_AT]), since, None) if since else []


def _limits(time: str, since: datetime | None, until: datetime | None) -> list[str]:
    for moment in (since, until):
        if moment is not None and moment.tzinfo is None:
            raise InvalidInput(f"{moment} has no time zone: give one, such as UTC")
    limits = [f"{time} >= {since.timestamp()!r}"] if since else []
    return limits + ([f"{time} < {until.timestamp()!r}"] if until else [])
