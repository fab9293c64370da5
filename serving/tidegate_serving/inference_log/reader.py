"""Reads the inference log with DuckDB, while engines go on writing it: that of one engine, or those of a group as one.

A folder with a log for each engine of a group (ROOT/ENGINE/model=...) reads as one log, also after an engine is gone.
DuckDB and pyarrow are imported inside, as only the extra `validate` installs both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from tidegate_serving.contract.errors import InvalidInput, NotFound, Unavailable, Unsupported
from tidegate_serving.contract.log_record import FORMAT, FORMAT_KEY, REQUEST_ID, RULE_KEY, SIGNATURE
from tidegate_serving.contract.servable import check_name

_TRIES = 5
Read = TypeVar("Read")
_HIVE = (
    "hive_partitioning = true, union_by_name = true, "
    "hive_types = {'model': 'VARCHAR', 'version': 'BIGINT', 'date': 'DATE'}"
)
_EMPTY = (
    "SELECT NULL::VARCHAR AS request_id, NULL::VARCHAR AS trace_id, NULL::INTEGER AS row, NULL::VARCHAR AS role, "
    "NULL::INTEGER AS status, NULL::VARCHAR AS signature, NULL::TIMESTAMPTZ AS received_at, "
    "NULL::TIMESTAMPTZ AS event_time, NULL::BIGINT AS latency_us, NULL::VARCHAR AS model, NULL::BIGINT AS version, "
    "NULL::DATE AS date WHERE false"
)
_SIGNATURES = (
    "SELECT file_name, min(stats_min_value), max(stats_max_value), bool_and(stats_min_value IS NOT NULL) "
    "FROM parquet_metadata(?) WHERE path_in_schema = ? GROUP BY file_name ORDER BY file_name"
)


def duckdb_module() -> Any:
    """DuckDB, or Unsupported naming the extra that installs it."""
    try:
        import duckdb
    except ImportError as error:
        raise Unsupported("this needs duckdb: install it with `pip install 'tidegate[validate]'`") from error
    return duckdb


def connect(root: Path) -> Any:
    """A DuckDB connection in UTC with a view `log` over everything logged under `root`.

    The view sees files that are written later. Where nothing is logged yet, it is an empty table of the columns that
    every log has. Raises NotFound for a missing folder.
    """
    check_log(root)
    connection = duckdb_module().connect()
    connection.execute("SET TimeZone = 'UTC'")
    pattern = f"{_engines(root)}model=*/version=*/date=*/*.parquet"
    first, source = next(_files(root, pattern), None), _EMPTY
    if first is not None:
        source = f"SELECT * FROM {_read_parquet(root / pattern)}"
        _check_format(first)
    read_again(lambda: connection.execute(f"CREATE VIEW log AS {source}"))
    return connection


def read_again(read: Callable[[], Read]) -> Read:
    """What `read` gives, which is called again where a file of the log went while it read, as erasing and compacting
    replace files. Unavailable where that does not end, InvalidInput where a file cannot be read as a log's."""
    duckdb = duckdb_module()
    for _ in range(_TRIES):
        try:
            return read()
        except duckdb.IOException as error:
            gone = error
        except duckdb.Error as error:
            if type(error) is not duckdb.Error and not isinstance(error, _of_the_data(duckdb)):
                raise
            why, _, _ = str(error).partition("\n")
            raise InvalidInput(f"the log cannot be read ({why}): move the damaged file out of the log") from error
    raise Unavailable(f"the log cannot be read while its files go, {_TRIES} times on end ({gone}): try again") from gone


def _of_the_data(duckdb: Any) -> tuple[type[Exception], ...]:
    """What DuckDB raises for what a file holds, beside its bare Error; the others are for queries."""
    return duckdb.InvalidInputException, duckdb.ConversionException, duckdb.SerializationException


def scan(
    root: Path,
    model: str,
    version: int | None = None,
    *,
    by_engine: bool = False,
    signatures: Mapping[int, str] | None = None,
) -> str:
    """SQL text that stands for a model's logged rows after FROM, with Hive columns; `by_engine` adds a column `engine`,
    which tells the logs of a group apart.

    With `signatures`, one for each version that is asked for, files of others are not opened, whose columns may have
    the same names and other types; a file that holds several, or does not say what it holds, is read whole. Where there
    are such others, files that come later are not seen: scan within the `read_again` that reads. Raises NotFound where
    nothing is logged of it yet.
    """
    pattern = _pattern(root, model, version)
    paths = [pattern] if signatures is None else _holding(pattern, signatures)
    source = _read_parquet(*paths) if paths else f"({_EMPTY})"
    if not by_engine:
        return source
    if not paths:
        return f"(SELECT *, NULL::VARCHAR AS engine FROM {source})"
    engine = f"split_part(substr(filename, {len(str(root)) + 2}), '/', 1)"
    return f"(SELECT * EXCLUDE (filename), {engine} AS engine FROM {source[:-1]}, filename = true))"


def unlogged_columns(root: Path, model: str, version: int | None = None) -> dict[str, str]:
    """Columns that are not in a model's log as they were asked, in any of its files: HASH or OMIT by name.

    Raises NotFound as `scan`.
    """
    query = "SELECT DISTINCT decode(key), decode(value) FROM parquet_kv_metadata(?) WHERE starts_with(decode(key), ?)"
    with duckdb_module().connect() as connection:
        pattern = str(_pattern(root, model, version))
        found = read_again(lambda: connection.execute(query, [pattern, RULE_KEY]).fetchall())
    return {key.removeprefix(RULE_KEY): rule for key, rule in sorted(found)}


def logged_until(root: Path, model: str) -> datetime:
    """When the last request came that the log has of a model. NotFound as `scan`."""
    with connect(root) as connection:
        query = f"SELECT epoch_us(max(received_at)) FROM {scan(root, model)}"
        found = read_again(lambda: connection.execute(query).fetchall())[0]
    return datetime.fromtimestamp(found[0] / 1e6, UTC)


def places_of(root: Path, request_id: str, model: str | None = None, most: int = 10_000) -> dict[Path, list[int]]:
    """The files that hold rows of a request, with the numbers of these rows, counted from 0; at most so many rows.

    Raises NotFound for a missing folder.
    """
    with connect(root) as connection:
        pattern = root / f"{_engines(root)}model={check_name(model) if model else '*'}/version=*/date=*/*.parquet"
        if next(_files(root, str(pattern.relative_to(root))), None) is None:
            return {}
        source = f"{_read_parquet(pattern)[:-1]}, filename = true, file_row_number = true)"
        query = f"SELECT filename, file_row_number FROM {source} WHERE {REQUEST_ID} = ? ORDER BY ALL LIMIT {int(most)}"
        found: dict[Path, list[int]] = {}
        for name, number in read_again(lambda: connection.execute(query, [request_id]).fetchall()):
            found.setdefault(Path(name), []).append(int(number))
    return found


def check_log(root: Path) -> Path:
    """The same root; NotFound where there is no folder."""
    if not root.is_dir():
        raise NotFound(f"inference log {root} is no folder: mend the path, or set the engine's log_path")
    return root


def is_engine_log(root: Path) -> bool:
    """Whether it holds the log of an engine, or one for each of several."""
    return any(next(root.glob(pattern), None) is not None for pattern in ("model=*/version=*", "*/model=*/version=*"))


def logged_models(root: Path) -> list[str]:
    """The names of the models that a log has, an engine's or a group's."""
    return sorted({path.name.removeprefix("model=") for path in root.glob(f"{_engines(root)}model=*")})


def is_group_log(root: Path) -> bool:
    """Whether it holds a log for each of several engines."""
    return bool(_engines(root)) and next(root.glob("*/model=*"), None) is not None


def _engines(root: Path) -> str:
    """What a pattern needs before `model=`: nothing in an engine's own log."""
    return "" if next(root.glob("model=*"), None) is not None else "*/"


def _pattern(root: Path, model: str, version: int | None) -> Path:
    """A model's files; NotFound where there are none yet, or no log."""
    check_name(model)
    check_log(root)
    pattern = f"{_engines(root)}model={model}/version={'*' if version is None else int(version)}/date=*/*.parquet"
    if not any(_check_format(one) for one in _files(root, pattern)):
        what = model if version is None else f"{model}:{version}"
        raise NotFound(f"nothing is logged of {what} under {root}: ask the model first, and wait for a block")
    return root / pattern


def _files(root: Path, pattern: str) -> Iterator[Path]:
    """Those that DuckDB sees: pipes and devices it passes over."""
    return (path for path in root.glob(pattern) if path.is_file())


def _read_parquet(*patterns: Path) -> str:
    texts = [str(pattern) for pattern in patterns]
    if odd := [text for text in texts if any(character in text for character in "[]?")]:
        raise InvalidInput(f"log path {odd[0]} holds one of [ ] ?, which DuckDB reads as a pattern: move the log")
    listed = ", ".join(f"'{text.replace(chr(39), chr(39) * 2)}'" for text in texts)
    return f"read_parquet([{listed}], {_HIVE})"


def _holding(pattern: Path, signatures: Mapping[int, str]) -> list[Path]:
    """The files that may hold rows of their version's signature, as the statistics in their footers say: the pattern
    itself where these are all."""
    with duckdb_module().connect() as connection:
        found = read_again(lambda: connection.execute(_SIGNATURES, [str(pattern), SIGNATURE]).fetchall())
    chosen = []
    for name, least, most, is_known in found:
        wanted = signatures.get(int(Path(name).parents[1].name.removeprefix("version=")))
        if wanted is not None and (not is_known or least <= wanted <= most):
            chosen.append(Path(name))
    return [pattern] if len(chosen) == len(found) else chosen


def _check_format(path: Path) -> bool:
    """Whether the file is still there; InvalidInput where it is no file of a log. Only its footer is read, in a
    tenth of a millisecond: DuckDB takes twenty to begin."""
    duckdb_module()  # the same extra installs what is imported here
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tidegate_serving.contract.formats import check_format
    from tidegate_serving.contract.log_record import VERSION

    try:
        found = (pq.read_metadata(path).metadata or {}).get(FORMAT_KEY.encode(), b"")
    except (pa.ArrowException, OSError) as error:
        if not path.exists():
            return False
        raise InvalidInput(f"{path} cannot be read as Parquet ({error}): move it out of the log") from error
    kind = FORMAT.partition("/")[0].removeprefix("tidegate.")
    check_format({"format": found.decode(errors="replace")}, kind=kind, version=VERSION, where=str(path))
    return True
