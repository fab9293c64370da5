"""Reads the Parquet files that steps are given by path.

Steps ask here, so that every missing or foreign file gets the same error.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_serving.contract.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(path: Path, what: str) -> pa.Table:
    """The whole file as a table; `what` names its role for the message. NotFound or InvalidInput, naming the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise NotFound(f"{what} {path} is missing: give the path of a Parquet file")
    try:
        with pq.ParquetFile(path) as file:
            return file.read()
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"{what} {path} is no Parquet file: {error}") from error
