"""Evaluation data in whatever form it comes, as one Arrow table that the gates can read.

It may be a path (Parquet, CSV, Arrow, JSON lines, a table in a DuckDB file) or a table of pandas, polars, DuckDB or
Arrow. The table has plain column types only, and a file that cannot be read is the same error everywhere.
"""

from __future__ import annotations

import codecs
import glob
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.contract.errors import InvalidInput, NotFound, Unsupported
from tidegate_serving.contract.manifest import FILE_NAME
from tidegate_serving.contract.plain_file import check_given

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

DUCKDB_MARK = "::"
_DUCKDB_SUFFIXES = (".duckdb", ".ddb", ".db")
_UNITS = ("s", "ms", "us", "ns")
"""Of time stamps, from the coarsest to the finest."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_FORMS = (
    "Parquet (.parquet), CSV (.csv, .csv.gz, .tsv), Arrow (.arrow, .feather), JSON lines (.jsonl) or FILE.duckdb::TABLE"
)


def as_table(data: Any, what: str) -> pa.Table:
    """The data as a table; `what` names its role in messages, such as "held-out data".

    `data` is a path or text as `read_table` takes, a pyarrow Table, RecordBatch or reader, a pandas DataFrame (its
    index is left out), a polars DataFrame or LazyFrame, a DuckDB relation, anything else that offers the Arrow C stream
    interface, or a mapping from column names to values. InvalidInput for anything else and for two columns of a name.
    """
    _need_arrow(what)
    import pyarrow as pa

    if isinstance(data, str | Path):
        return read_table(data, what)
    try:
        table = _from_memory(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        cure = "give columns of one length, each with values of one kind (numbers, texts, truth values, time stamps)"
        raise InvalidInput(f"{what} cannot become a table ({error}): {cure}") from error
    if table is None:
        raise InvalidInput(
            f"{what} is a {type(data).__name__}: give a path, or a table of pandas, polars, DuckDB or Arrow"
        )
    return _plain(table, what)


def read_table(path: str | Path, what: str) -> pa.Table:
    """The whole file as a table, by its suffix; a folder of Parquet files with Hive names is one table too.

    `FILE.duckdb::TABLE` reads a table or view of a DuckDB file, and `FILE.duckdb::SELECT ...` the rows of a query. A
    pattern such as `2013-06-*.parquet` reads all files that it fits, in the order of their names.
    NotFound or InvalidInput, naming the file.
    """
    _need_arrow(what)
    text = str(path)
    if glob.has_magic(text) and DUCKDB_MARK not in text and not Path(path).exists():
        return _read_all(text, what)
    place, mark, table = text.partition(DUCKDB_MARK)
    if mark:
        return _plain(_read_duckdb(Path(place), table.strip(), what), what)
    path = Path(path)
    if not path.exists():
        cure = "is an address: fetch it from there first, and" if _ADDRESS.match(text) else "is missing:"
        raise NotFound(f"{what} {path} {cure} give {_FORMS}")
    if (path / FILE_NAME).is_file():
        raise InvalidInput(f"{what} {path} is a version of a model, and no data: give {_FORMS}")
    reader = partial(_parquet_folder, what=what) if path.is_dir() else _reader(path, what)
    if not path.is_dir():
        check_given(path, what, f"give {_FORMS}")
    import pyarrow as pa

    try:
        return _plain(reader(path), what)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{what} {path} cannot be read ({error}): write the file anew, or name another") from error


def _need_arrow(what: str) -> None:
    if find_spec("pyarrow") is None:
        raise Unsupported(f"{what} needs pyarrow to be read: install it with `pip install 'tidegate[validate]'`")


def _read_all(pattern: str, what: str) -> pa.Table:
    import pyarrow as pa

    paths = fitting(pattern)
    if not paths:
        raise NotFound(f"{what}: no file fits {pattern}: give {_FORMS}, or a pattern of such files")
    try:
        return pa.concat_tables([read_table(path, what) for path in paths], promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidInput(f"{what}: the files of {pattern} do not make one table: {error}") from error


def fitting(pattern: str) -> list[Path]:
    """The paths that a pattern fits, in the order of their names."""
    root, rest = (Path("/"), pattern.lstrip("/")) if Path(pattern).is_absolute() else (Path(), pattern)
    return sorted(root.glob(rest))


def _reader(path: Path, what: str) -> Callable[[Path], pa.Table]:
    name = path.name.lower().removesuffix(".gz")
    readers: Mapping[tuple[str, ...], Callable[[Path], pa.Table]] = {
        (".parquet", ".pq"): _parquet,
        (".csv", ".tsv"): _csv,
        (".arrow", ".feather", ".ipc"): _arrow,
        (".jsonl", ".ndjson"): _json,
    }
    for suffixes, reader in readers.items():
        if name.endswith(suffixes):
            return reader
    if name.endswith(_DUCKDB_SUFFIXES):
        raise InvalidInput(f"{what} {path} is a database: name the table too, {path}{DUCKDB_MARK}TABLE")
    raise InvalidInput(f"{what} {path} is of no kind that is known by its name: give {_FORMS}")


def _parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return file.read()


def _parquet_folder(path: Path, what: str) -> pa.Table:
    """The rows of all its files, with the columns of each of them."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    try:
        found = ds.dataset(path, format="parquet", partitioning="hive")
    except pa.ArrowInvalid as error:
        named = re.search(r"schema from '(.+?)'", str(error))
        raise OSError(f"not all its files are Parquet: {error if named is None else named[1]}") from error
    if not found.files:
        raise OSError("the folder holds no Parquet file")
    kinds: dict[str, list[pa.DataType]] = {}
    for schema in (found.schema, *(fragment.physical_schema for fragment in found.get_fragments())):
        _refuse_twice(schema.names, what)
        for field in schema:
            kinds.setdefault(field.name, []).append(field.type)
    cure = "write the files with one type for each column"
    # A file without a column has nulls there, whatever another file says of that column.
    fields = []
    for name, in_files in kinds.items():
        kind = _common_type(in_files)
        if kind is None:
            told = " and ".join(dict.fromkeys(map(str, in_files)))
            raise InvalidInput(f"{what} {path}: its files have column {name!r} as {told}: {cure}")
        fields.append(pa.field(name, kind, nullable=True))
    try:
        return ds.dataset(path, format="parquet", partitioning="hive", schema=pa.schema(fields)).to_table()
    except pa.ArrowInvalid as error:
        mixed = [name for name, in_files in kinds.items() if len(set(in_files)) > 1]
        if not mixed:
            raise
        raise InvalidInput(
            f"{what} {path}: its files have other types of {', '.join(map(repr, mixed))}, and {error}: {cure}"
        ) from error


def _common_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type that a column has in all files, or one that takes the values of each; None where there is none.

    Dates become time stamps where both are there, and stamps without a zone are UTC: the first one's zone counts.
    """
    import pyarrow as pa

    if len(set(kinds)) == 1:
        return kinds[0]
    plain = [_plain_type(kind) for kind in kinds]
    stamps = [kind for kind in plain if pa.types.is_timestamp(kind)]
    if stamps and all(
        pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind) for kind in plain
    ):
        return pa.timestamp(max((kind.unit for kind in stamps), key=_UNITS.index), stamps[0].tz)
    try:
        return pa.unify_schemas([pa.schema([("", kind)]) for kind in plain], promote_options="permissive").field(0).type
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return None


def _csv(path: Path) -> pa.Table:
    import pyarrow.csv

    with path.open("rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise OSError("it is in UTF-16, not in UTF-8")
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, null_values=["", "NULL", "null", "NA", "N/A", "NaN"])
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
    found = pyarrow.csv.read_csv(path, parse_options=parse, convert_options=options)
    other = re.search(r"[;|\t]", found.column_names[0]) if found.num_columns == 1 else None
    if other is not None:
        raise OSError(f"its columns are parted by {other[0]!r}, not by {delimiter!r}")
    return found.rename_columns(_named_by_place(found.column_names))


def _named_by_place(names: Sequence[str]) -> list[str]:
    """An index that pandas wrote has no name; reading it, pandas calls it by its place, and by a further number where a
    column has that name, as that of an index before does."""
    named = list(names)
    for place in (place for place, name in enumerate(names) if not name):
        wanted, further = f"Unnamed: {place}", 0
        while wanted in names:
            further += 1
            wanted = f"Unnamed: {place}.{further}"
        named[place] = wanted
    return named


def _arrow(path: Path) -> pa.Table:
    import pyarrow.feather

    return pyarrow.feather.read_table(path)


def _json(path: Path) -> pa.Table:
    import pyarrow.json

    return pyarrow.json.read_json(path)


def _read_duckdb(path: Path, table: str, what: str) -> pa.Table:
    try:
        import duckdb
    except ImportError as error:
        raise Unsupported(f"{what} {path} needs duckdb: install it with `pip install 'tidegate[validate]'`") from error
    if not path.is_file():
        raise NotFound(f"{what}: database {path} is missing: give the path of a DuckDB file")
    if not table:
        raise InvalidInput(f"{what} {path}{DUCKDB_MARK} names no table: write {path}{DUCKDB_MARK}TABLE")
    query = table if table.lower().startswith(("select ", "with ", "from ")) else f"SELECT * FROM {_quoted(table)}"
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            return connection.sql(query).to_arrow_table()
    except duckdb.CatalogException as error:
        raise NotFound(f"{what}: {path} has no {table!r}: {error}") from error
    except duckdb.Error as error:
        place = f"{path}{DUCKDB_MARK}{table}"
        raise InvalidInput(f"{what} {place} cannot be read ({error}): mend the query, or the file") from error


def _quoted(table: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def _from_memory(data: Any) -> pa.Table | None:
    import pyarrow as pa

    if type(data).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False) if hasattr(data, "columns") else None
    if hasattr(data, "collect") and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__") or isinstance(data, Mapping):
        return pa.table(data)
    return None


def _plain(table: pa.Table, what: str) -> pa.Table:
    """The same values in the types that the gates know: no dictionaries, views, decimals or floats of 16 bits;
    column names unique."""
    import pyarrow as pa

    _refuse_twice(table.column_names, what)
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, _without_dictionary(table[field.name]))
    fields = [pa.field(field.name, _plain_type(field.type)) for field in table.schema]
    return table.replace_schema_metadata(None).cast(pa.schema(fields))


def _refuse_twice(names: Sequence[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(f"{what} has column {twice[0]!r} twice: give each column a name of its own")


def _without_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The plain values of a dictionary, be they of another library's type, such as intervals, which are their ends."""
    import pyarrow as pa

    kind = column.type.value_type
    kind = _plain_type(kind.storage_type if isinstance(kind, pa.ExtensionType) else kind)

    def values(chunk: pa.DictionaryArray) -> pa.Array:
        known = chunk.dictionary
        plain = known.storage if isinstance(known, pa.ExtensionArray) else known
        return plain.cast(kind).take(chunk.indices)

    return pa.chunked_array([values(chunk) for chunk in column.chunks], kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text or bytes, be it as a dictionary of them."""
    import pyarrow as pa

    return _plain_type(kind) in (pa.string(), pa.binary())


def seconds_of(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Time stamps, dates or numbers of seconds as seconds since 1970, NaN for what is missing."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        zone = getattr(column.type, "tz", None)
        micros = column.cast(pa.timestamp("us", tz=zone), safe=False).cast(pa.int64())
        return np.asarray(micros.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)) / 1e6
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    return kind
