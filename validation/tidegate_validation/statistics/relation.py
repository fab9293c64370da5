"""A table as SQL reads it: held in memory, or in Parquet files that are read piece by piece, so that they may be larger
than memory. What is counted is the same either way.
"""

from __future__ import annotations

import glob
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.inference_log.reader import duckdb_module
from tidegate_validation.statistics.blocks import ROW_INDEX
from tidegate_validation.statistics.counting import types_of
from tidegate_validation.statistics.rows import read_whole, sampled
from tidegate_validation.statistics.sql import quote, text_literal
from tidegate_validation.tables import as_table, fitting

if TYPE_CHECKING:
    import pyarrow as pa

LARGE = 1_000_000
"""Parquet files of more rows than this are not read into memory."""
_MEMORY = "1GB"
"""What DuckDB may take beside what is fetched, where files are too large for memory."""
_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class Relation:
    """`name` is SQL text for so many `rows` on `connection`, with columns of DuckDB `types`. `table` holds the same
    rows where they are in memory, `some` names a sample of them where one was drawn."""

    connection: Any
    name: str
    rows: int
    types: Mapping[str, str]
    table: pa.Table | None = None
    some: str = ""

    def view(self, name: str, columns: Mapping[str, str]) -> Relation:
        """Its `columns`, SQL by name, as a relation of another name."""
        self.connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {_listed(columns)} FROM {self.name}")
        return replace(
            self, name=name, types=types_of(self.connection, name), table=None, some=self._some(name, columns)
        )

    def parsed(self, name: str, columns: Mapping[str, str]) -> Relation:
        """The relation under another name, with these columns, SQL by name, in the place of its own: whatever takes
        long to read is read once, where all rows are in memory."""
        every = {one: columns.get(one, quote(one)) for one in self.types}
        if self.table is None:
            return self.view(name, every)
        found = self.connection.sql(f"SELECT {_listed(columns)} FROM {self.name}").to_arrow_table()
        table = self.table
        for one in columns:
            table = table.set_column(table.column_names.index(one), one, found[one])
        return replace(relation_of_table(self.connection, name, table), some=self._some(name, every))

    def numbered(self, name: str) -> Relation:
        """With a column ROW_INDEX for the order of rows."""
        columns = {**{one: quote(one) for one in self.types}, ROW_INDEX: "row_number() OVER () - 1"}
        return replace(self, some="").view(name, columns)  # In a sample the numbers would be others.

    def drawn(self) -> Relation:
        """The relation, of which a sample is kept for whoever asks for one; drawing one reads all rows."""
        if read_whole(self.rows):
            return self
        some = f"{self.name}_some"
        self.connection.execute(f"CREATE TEMP TABLE {some} AS SELECT * FROM {sampled(self.name, self.rows)}")
        return replace(self, some=some)

    def sample(self, columns: Mapping[str, str]) -> pa.Table:
        """Some `columns`, SQL by name, of a repeatable sample of rows, all where they are few."""
        source = self.some or sampled(self.name, self.rows)
        return self.connection.sql(f"SELECT {_listed(columns)} FROM {source}").to_arrow_table()

    def _some(self, name: str, columns: Mapping[str, str]) -> str:
        """The same columns of the sample, where there is one, as a relation beside that of a name."""
        if not self.some:
            return ""
        some = f"{name}_some"
        self.connection.execute(f"CREATE TEMP VIEW {some} AS SELECT {_listed(columns)} FROM {self.some}")
        return some


def _listed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{sql} AS {quote(one)}" for one, sql in columns.items())


@contextmanager
def connected() -> Iterator[Any]:
    """A connection to a DuckDB of its own, which puts aside on disk what does not fit into memory. Raises
    Unsupported without DuckDB."""
    duckdb = duckdb_module()
    with tempfile.TemporaryDirectory(prefix="tidegate-duckdb-") as spilled, duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = 'UTC'; SET temp_directory = {text_literal(spilled)}")
        yield connection


def relation_of(connection: Any, name: str, data: Any, what: str) -> Relation:
    """The `data`, anything that `as_table` takes, known to SQL by a name; `what` names its role in messages."""
    large = _large_files(data)
    if large is None:
        return relation_of_table(connection, name, as_table(data, what), what)
    _check_names(large.names, what)
    connection.execute(f"SET memory_limit = {text_literal(_MEMORY)}")
    listed = ", ".join(text_literal(path) for path in large.paths)
    hive = ", ".join(f"{text_literal(one)}: {kind}" for one, kind in large.hive.items())
    folders = f"hive_partitioning = true, hive_types = {{{hive}}}" if hive else "hive_partitioning = false"
    wanted = ", ".join(quote(one) for one in large.names)
    found = f"read_parquet([{listed}], union_by_name = true, {folders})"
    connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {wanted} FROM {found}")
    return Relation(connection, name, large.rows, types_of(connection, name))


def relation_of_table(connection: Any, name: str, table: pa.Table, what: str = "the table") -> Relation:
    """A table in memory, known to SQL by a name; `what` names its role in messages.

    InvalidInput where a column has no name, or two differ by capitals alone.
    """
    _check_names(table.column_names, what)
    connection.register(name, table)
    return Relation(connection, name, table.num_rows, types_of(connection, name), table)


def told_apart(table: pa.Table, wanted: Collection[str]) -> pa.Table:
    """Without columns that have no name or differ from another by capitals alone, unless they are `wanted`."""
    alike = Counter(name.lower() for name in table.column_names)
    return table.select([one for one in table.column_names if one in wanted or (one and alike[one.lower()] == 1)])


def _check_names(names: Sequence[str], what: str) -> None:
    """SQL gives columns that it cannot tell apart, or that have no name, names of its own."""
    known: dict[str, str] = {}
    for place, name in enumerate(names, start=1):
        if not name:
            raise InvalidInput(f"{what}: column {place} has no name: give it one, or leave it out")
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInput(
                f"{what}: columns {other!r} and {name!r} differ by capitals alone: give one another name"
            )


@dataclass(frozen=True, slots=True)
class _Large:
    """Parquet files of so many `rows` with columns of these `names`; of them `hive` are those that folders' names hold,
    with their DuckDB types."""

    paths: list[str]
    rows: int
    names: Sequence[str]
    hive: Mapping[str, str]


def _large_files(data: Any) -> _Large | None:
    """Parquet files that are too large for memory; None for anything else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not isinstance(data, str | Path):
        return None
    text = str(data)
    pattern = glob.has_magic(text) and not Path(text).exists()
    paths = [str(path) for path in fitting(text)] if pattern else [text]
    try:
        if not pattern and Path(text).is_dir():
            return _large_folder(text)
        if not paths or not all(path.lower().endswith(_PARQUET) and Path(path).is_file() for path in paths):
            return None
        found = [pq.read_metadata(path) for path in paths]
    except (pa.ArrowException, OSError):
        return None  # Whoever reads it as a table says what is wrong with it.
    rows, columns = sum(one.num_rows for one in found), [one.schema.to_arrow_schema().names for one in found]
    if rows <= LARGE or len(set(columns[0])) < len(columns[0]):
        return None
    return _Large(paths, rows, list(dict.fromkeys(name for names in columns for name in names)), {})


def _large_folder(path: str) -> _Large | None:
    import pyarrow as pa
    import pyarrow.dataset as ds

    found = ds.dataset(path, format="parquet", partitioning="hive")
    rows = found.count_rows() if found.files else 0
    if rows <= LARGE:
        return None
    inside = dict.fromkeys(name for one in found.get_fragments() for name in one.physical_schema.names)
    hive = [field for field in found.schema if field.name not in inside]
    kinds = {field.name: "INTEGER" if pa.types.is_integer(field.type) else "VARCHAR" for field in hive}
    return _Large(found.files, rows, [*inside, *kinds], kinds)
