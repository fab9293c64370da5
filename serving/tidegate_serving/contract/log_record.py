"""Names and meaning of the inference log's columns and folders; one row is one example of one request.

The writer in the engine and every reader (skew detection, the canary, DuckDB users) go by these names.

    ROOT/model=NAME/version=N/date=YYYY-MM-DD/BLOCK.parquet
"""

from __future__ import annotations

import enum

VERSION = "1"
FORMAT_KEY = "format"
FORMAT = f"tidegate.inference-log/{VERSION}"

RULE_KEY = "log_column."
"""Before a column's name, the key in a file's metadata that says what became of the column: HASH or OMIT."""
HASH = "hash"
OMIT = "omit"
COLUMN_RULES = (HASH, OMIT)

INPUT_PREFIX = "in."
OUTPUT_PREFIX = "out."
REQUEST_ID = "request_id"
TRACE_ID = "trace_id"
"""The W3C trace that the request belongs to, 32 hexadecimal digits; null where it belongs to none."""
ROW = "row"
ROLE = "role"
STATUS = "status"
SIGNATURE = "signature"
RECEIVED_AT = "received_at"
EVENT_TIME = "event_time"
LATENCY_US = "latency_us"


class Role(enum.StrEnum):
    """Who the answer went to: `primary` to the client, `shadow` to nobody but the log."""

    PRIMARY = "primary"
    SHADOW = "shadow"


def input_column(name: str) -> str:
    """Column of an input."""
    return INPUT_PREFIX + name


def output_column(name: str) -> str:
    """Column of an output; null in rows whose status is not OK."""
    return OUTPUT_PREFIX + name
