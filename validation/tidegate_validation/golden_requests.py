"""Golden requests: recorded requests with the answers they got, which a candidate has to give again.

A Parquet file with columns of the inference log (request_id, row, in.*, out.*), a request's rows one below the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegate_serving.contract import log_record
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.formats import check_format
from tidegate_serving.contract.plain_file import check_given
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.files import written_aside
from tidegate_serving.inference_log.reader import duckdb_module, read_again, scan, unlogged_columns
from tidegate_validation.statistics.sql import quote, text_literal

KIND, VERSION = "golden-requests", "1"
_ABOUT = "tidegate.golden"
_MOST_ROWS = 1024
_COMPLETE = (
    f"count(*) = count(DISTINCT {log_record.ROW}) AND max({log_record.ROW}) = count(*) - 1 "
    f"AND count(*) <= {_MOST_ROWS} AND bool_and({log_record.STATUS} = 0)"
)


@dataclass(frozen=True, slots=True)
class GoldenRequests:
    """`table` (a pyarrow.Table) as in the file; `servable` answered by `signature` when they were recorded."""

    table: Any
    servable: str
    signature: str
    where: str

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs that were sent."""
        return _names(self.table, log_record.INPUT_PREFIX)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs that came back."""
        return _names(self.table, log_record.OUTPUT_PREFIX)

    def sent(self) -> Any:
        """A table with a column per input."""
        table = self.table.select([log_record.input_column(name) for name in self.inputs])
        return table.rename_columns(self.inputs)

    def answered(self, output: str) -> Any:
        """The column of an output."""
        return self.table[log_record.output_column(output)]

    def requests(self) -> Iterator[tuple[str, int, int]]:
        """Each request: its id, its first row in the table, and the row after its last."""
        ids = self.table[log_record.REQUEST_ID].to_pylist()
        starts = [place for place, one in enumerate(ids) if place == 0 or ids[place - 1] != one]
        for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
            yield ids[start], start, end


@dataclass(frozen=True, slots=True)
class Recording:
    """What to record: at most `requests` of a model's version, chosen by a hash of their ids, or those in `ids`; of one
    signature, and of those that came since a moment."""

    model: str
    version: int
    requests: int = 200
    ids: Sequence[str] = ()
    signature: str = SERVING_DEFAULT
    since: datetime | None = None


def record_golden_requests(log_root: Path, recording: Recording, path: Path) -> GoldenRequests:
    """Takes whole requests that a version answered from the inference log and writes them to `path`.

    Hashed outputs are left out. NotFound where the log holds none of them, InvalidInput where an id that was asked for
    is not among them, and where an input or every output is hashed in the log.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with duckdb_module().connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        table = read_again(lambda: _recorded(connection, log_root, recording))
    servable = f"{recording.model}:{recording.version}"
    found = set(table[log_record.REQUEST_ID].to_pylist())
    if missing := [one for one in recording.ids if one not in found]:
        raise InvalidInput(
            f"request {missing[0]!r} is not among the whole and answered requests of {servable} in {log_root}: leave "
            "it out"
        )
    if not found:
        raise NotFound(
            f"the log {log_root} holds no whole and answered request of {servable} by signature "
            f"{recording.signature!r}: ask the model first, or name another version, signature or time"
        )
    table = _of_the_signature(table, unlogged_columns(log_root, recording.model, recording.version))
    about = {"servable": servable, "signature": recording.signature}
    metadata = {log_record.FORMAT_KEY: f"tidegate.{KIND}/{VERSION}", _ABOUT: json.dumps(about)}
    kept: pa.Table = table.replace_schema_metadata(metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as aside:
        pq.write_table(kept, aside)
    return GoldenRequests(kept, servable, recording.signature, str(path))


def read_golden_requests(path: Path) -> GoldenRequests:
    """What was recorded. NotFound, InvalidInput for another file, Unsupported for a newer format."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_given(path, "golden requests file", "record one with `tidegate golden record`")
    try:
        table = pq.read_table(path)
        metadata = table.schema.metadata or {}
        about = json.loads(metadata.get(_ABOUT.encode(), b"{}"))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInput(f"{path} holds no golden requests ({error}): record them again") from error
    kind = metadata.get(log_record.FORMAT_KEY.encode(), b"").decode(errors="replace")
    check_format({"format": kind}, kind=KIND, version=VERSION, where=str(path))
    found = GoldenRequests(table, str(about.get("servable")), str(about.get("signature")), str(path))
    if log_record.REQUEST_ID not in table.column_names or not found.inputs or not found.outputs:
        raise InvalidInput(f"{path} lacks request ids, inputs or outputs: record the golden requests again")
    return found


def _recorded(connection: Any, log_root: Path, recording: Recording) -> Any:
    asked = {recording.version: recording.signature}
    source = scan(log_root, recording.model, recording.version, signatures=asked)
    types = dict(connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {source})").fetchall())
    wanted = [f"{log_record.ROLE} = 'primary'"]
    if log_record.SIGNATURE in types:
        wanted.append(f"{log_record.SIGNATURE} = {text_literal(recording.signature)}")
    if recording.since is not None:
        wanted.append(f"{log_record.RECEIVED_AT} >= {text_literal(recording.since.isoformat())}::TIMESTAMPTZ")
    if recording.ids:
        wanted.append(f"{log_record.REQUEST_ID} IN ({', '.join(map(text_literal, recording.ids))})")
    columns = [log_record.REQUEST_ID, log_record.ROW]
    columns += [name for name in types if name.startswith((log_record.INPUT_PREFIX, log_record.OUTPUT_PREFIX))]
    most = "" if recording.ids else f"LIMIT {int(recording.requests)}"
    rows = f"SELECT * FROM {source} WHERE {' AND '.join(wanted)}"
    return connection.sql(
        f"WITH logged AS ({rows}), chosen AS (SELECT {log_record.REQUEST_ID} FROM logged GROUP BY 1 HAVING {_COMPLETE} "
        f"ORDER BY md5({log_record.REQUEST_ID}) {most}) SELECT {', '.join(map(quote, columns))} FROM logged "
        f"WHERE {log_record.REQUEST_ID} IN (FROM chosen) ORDER BY {log_record.REQUEST_ID}, {log_record.ROW}"
    ).to_arrow_table()


def _of_the_signature(table: Any, unlogged: Mapping[str, str]) -> Any:
    """Without columns of other signatures, which are null in every row, and hashed outputs."""
    values = (log_record.INPUT_PREFIX, log_record.OUTPUT_PREFIX)
    others = [name for name in table.column_names if name.startswith(values) and table[name].null_count == len(table)]
    table = table.drop_columns(others)
    hashed = [name for name in table.column_names if name in unlogged]
    if inputs := [name for name in hashed if name.startswith(log_record.INPUT_PREFIX)]:
        raise InvalidInput(
            f"input {inputs[0].removeprefix(log_record.INPUT_PREFIX)!r} is hashed in the log, so requests cannot be "
            "asked again: record golden requests from a log that has it"
        )
    left = table.drop_columns(hashed)
    if not _names(left, log_record.OUTPUT_PREFIX):
        raise InvalidInput("no output is in the log as it was answered, so nothing can be compared: log one")
    return left


def _names(table: Any, prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in table.column_names if name.startswith(prefix)]
