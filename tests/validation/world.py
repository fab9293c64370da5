"""A made-up world for the gates' tests: parcels with a label, models of a few lines, logs of what was served.

Nothing here is real and nothing knows the gates; every draw has a seed. Real data come from `flights`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.models.versions import write_manifest

from tidegate_serving.contract import log_record
from tidegate_serving.contract.manifest import Manifest, describe_files
from tidegate_serving.contract.repository import profile_directory, version_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_validation.statistics import build_profile

NAME = "parcels"
LABEL = "late"
TIME = "sent_at"
FIRST_DAY = 20_000
DAY = 86_400
SIZES = np.round(np.exp(np.random.default_rng(99).normal(3, 0.8, 150)), 1)
INPUTS = (TensorSpec("weight", "float32"), TensorSpec("size", "float32"), TensorSpec("depot", "string"))
OUTPUT = (TensorSpec("probability", "float32"),)
SIGNATURE = Signature(INPUTS, OUTPUT)

HONEST = """
import numpy as np

class Model:
    def predict(self, inputs):
        weight = np.nan_to_num(inputs["weight"].astype(np.float64), nan=5.0, posinf=1e6, neginf=-1e6)
        score = 0.45 * (np.clip(weight, -50, 50) - 5.0) + 0.8 * (inputs["depot"] == b"east")
        return {"probability": (1 / (1 + np.exp(-score))).astype(np.float32)}
"""


def before_return(line: str) -> str:
    """The honest model with one more line before it answers; `inputs` and `score` are at hand."""
    return HONEST.replace("        return", f"        {line}\n        return")


def parcels(rows: int, seed: int, *, days: int = 30, first_day: int = FIRST_DAY) -> pa.Table:
    """Parcels over `days` days: weight (continuous), size (150 different ones), depot, and whether they came late."""
    random = np.random.default_rng(seed)
    weight = random.gamma(5, 1.0, rows)
    depot = random.choice(["north", "east", "south", "west"], rows, p=[0.4, 0.3, 0.2, 0.1])
    chance = 1 / (1 + np.exp(-(0.45 * (weight - 5) + 0.8 * (depot == "east"))))
    sent = np.sort(random.integers(0, days * DAY, rows)) + first_day * DAY
    return pa.table(
        {
            "weight": weight.astype(np.float32),
            "size": random.choice(SIZES, rows).astype(np.float32),
            "depot": depot,
            TIME: sent.astype(np.int64),
            LABEL: (random.random(rows) < chance).astype(np.int64),
        }
    )


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    """The table with a column replaced or added."""
    column = pa.array(values)
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)


def scaled(table: pa.Table, name: str, factor: float, offset: float = 0.0) -> pa.Table:
    """The table with a numeric column multiplied, in its own type."""
    values = table[name].to_numpy()
    return with_column(table, name, (values * factor + offset).astype(values.dtype))


@dataclass(frozen=True)
class Draft:
    """What a version shall be like; a profile is built from `training`, or from none."""

    source: str = HONEST
    signature: Signature = SIGNATURE
    training: pa.Table | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


def publish(root: Path, version: int, draft: Draft) -> Path:
    """Writes ROOT/parcels/VERSION, platform python; the directory."""
    identity = ServableId(NAME, version)
    directory = version_directory(root, identity)
    directory.mkdir(parents=True)
    (directory / "model.py").write_text(draft.source)
    if draft.training is not None:
        build_profile(
            draft.training,
            features=draft.signature.input_names,
            label=LABEL,
            event_time=TIME,
            directory=profile_directory(directory),
        )
    manifest = Manifest(
        id=identity,
        platform="python",
        signatures={SERVING_DEFAULT: draft.signature},
        files=describe_files(directory),
        created_at="2026-01-01T00:00:00Z",
        event_time=TIME,
        label=LABEL,
        example=draft.example or {"weight": 4.0, "size": float(SIZES[0]), "depot": "north"},
        metadata=draft.metadata,
    )
    write_manifest(manifest, directory)
    return directory


@dataclass(frozen=True)
class Served:
    """Rows that an engine would have logged."""

    table: pa.Table
    inputs: Sequence[str] = ("weight", "size", "depot")
    version: int = 1
    role: str = "primary"
    block: str = "block"
    time: str = TIME
    model: str = NAME


def write_log(root: Path, served: Served) -> Path:
    """One complete file of the inference log, in the layout of the contract; the log's root."""
    rows = served.table.num_rows
    seconds = served.table[served.time].to_numpy().astype(np.int64)
    columns: dict[str, Any] = {
        log_record.REQUEST_ID: pa.array([f"{served.block}-{row}" for row in range(rows)]),
        log_record.ROW: pa.array(np.zeros(rows, dtype=np.int32)),
        log_record.ROLE: pa.array([served.role] * rows),
        log_record.STATUS: pa.array(np.zeros(rows, dtype=np.int32)),
        log_record.RECEIVED_AT: pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * rows, pa.timestamp("us", tz="UTC")),
        log_record.EVENT_TIME: pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC")),
    }
    columns |= {log_record.input_column(name): served.table[name] for name in served.inputs}
    folder = root / f"model={served.model}" / f"version={served.version}" / "date=2026-01-01"
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns).replace_schema_metadata({log_record.FORMAT_KEY: log_record.FORMAT})
    pq.write_table(table, folder / f"{served.block}.parquet")
    return root
