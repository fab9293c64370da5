"""Files of the log, read row group by row group and written as few large ones."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.log_record import RULE_KEY

_GROUP_BYTES = 16 << 20


def common_schema(files: Sequence[Path]) -> Any:
    """The pyarrow.Schema that all rows fit, each column of any file in it, nullable unless every file has it and says
    that it has no nulls; metadata are the first file's, and what any file says of columns that were hashed or left out.

    InvalidInput for a file that cannot be read, and where a column has types that do not go together.
    """
    schemas = [_schema_of(file) for file in files]
    try:
        found = pa.unify_schemas([schema.remove_metadata() for schema in schemas])
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInput(f"its files have columns of types that do not go together ({error})") from error
    for place, field in enumerate(found):
        full = all(field.name in schema.names and not schema.field(field.name).nullable for schema in schemas)
        found = found.set(place, field.with_nullable(not full))
    rules = {
        key: value
        for schema in schemas
        for key, value in (schema.metadata or {}).items()
        if key.decode().startswith(RULE_KEY)
    }
    return found.with_metadata({**(schemas[0].metadata or {}), **rules})


def that_go_together(files: Sequence[Path]) -> list[list[Path]]:
    """The files in groups whose columns have types that go together: signatures of a model may have an input of one
    name and two types. InvalidInput for a file that cannot be read."""
    groups: list[tuple[Any, list[Path]]] = []
    for file in files:
        schema = _schema_of(file).remove_metadata()
        for place, (known, found) in enumerate(groups):
            try:
                groups[place] = (pa.unify_schemas([known, schema]), [*found, file])
            except (pa.ArrowException, TypeError):
                continue
            break
        else:
            groups.append((schema, [file]))
    return [found for _, found in groups]


def _schema_of(file: Path) -> Any:
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"{file.name} cannot be read as Parquet ({error}): move it out of the log") from error


def rows_of(file: Path) -> int:
    """How many rows a file says it has."""
    return int(pq.read_metadata(file).num_rows)


def tables_of(file: Path, schema: Any) -> Iterator[Any]:
    """The rows of a file, some at a time, with exactly the columns of `schema`; what it lacks is null. InvalidInput for
    a file that is damaged inside.
    """
    try:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches():
                columns = [
                    batch.column(name).cast(kind) if name in batch.schema.names else pa.nulls(len(batch), kind)
                    for name, kind in zip(schema.names, schema.types, strict=True)
                ]
                yield pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"{file.name} cannot be read as Parquet ({error}): move it out of the log") from error


class LogFiles:
    """Writes tables of one schema into files of about `most_bytes` in `folder`, `paths`; a context manager."""

    def __init__(self, folder: Path, schema: Any, first: str, most_bytes: int) -> None:
        self._folder = folder
        self._schema = schema
        self._first = first
        self._most_bytes = most_bytes
        self._waiting: list[Any] = []
        self._writer: Any = None
        self.paths: list[Path] = []

    def __enter__(self) -> LogFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        self._end()

    def add(self, table: Any) -> None:
        """More rows."""
        self._waiting.append(table)
        if sum(one.nbytes for one in self._waiting) >= _GROUP_BYTES:
            self._flush()
            if self.paths[-1].stat().st_size >= self._most_bytes:
                self._end()

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            self.paths.append(self._folder / f"{self._first}-{uuid.uuid4().hex[:12]}.parquet")
            self._writer = pq.ParquetWriter(self.paths[-1], self._schema, compression="zstd")
        self._writer.write_table(pa.concat_tables(self._waiting))
        self._waiting = []

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def first_of(files: Sequence[Path]) -> str:
    """When the first of the files begins, as the engine names them: microseconds before the first dash."""
    return files[0].name.partition("-")[0]
