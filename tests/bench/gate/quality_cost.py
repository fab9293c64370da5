"""What all gates together cost on 100,000 held-out rows of ten columns: seconds, and memory of the gates' own process.

`measure` runs this module as a process of its own, because a peak of memory is that of a whole process; models run in
probe processes, which do not count.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.bench.rows import Row
from tests.bench.servers import ROOT
from tests.validation import world
from tests.validation.world import Draft

from tidegate_serving.contract.signature import Signature, TensorSpec

ROWS = 100_000
_NUMBERS = tuple(f"number{place}" for place in range(7))
_TEXTS = ("shop", "colour", "route")
_SIGNATURE = Signature(
    (*(TensorSpec(name, "float32") for name in _NUMBERS), *(TensorSpec(name, "string") for name in _TEXTS)),
    world.OUTPUT,
)
_MODEL = """
import numpy as np

class Model:
    def predict(self, inputs):
        numbers = [np.clip(np.nan_to_num(inputs[f"number{k}"].astype(np.float64)), -50, 50) for k in range(7)]
        score = SCALE * sum(numbers) / 3 + 0.5 * (inputs["shop"] == b"s1")
        return {"probability": (1 / (1 + np.exp(-score))).astype(np.float32)}
"""


def measure(rows: int = ROWS) -> list[Row]:
    """Both costs of one release, from a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.gate.quality_cost", str(rows)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    cost = json.loads(done.stdout.splitlines()[-1])
    words = f"all gates on {rows:,} held-out rows, 10 columns"
    found = [
        Row(words, cost["seconds"], "s", "< 60", cost["seconds"] < 60),
        Row("memory of the gates' process, peak", cost["megabytes"], "MB", "< 1000", cost["megabytes"] < 1000),
    ]
    return found + [Row(f"of this the {name} gate", seconds, "s", "-", None) for name, seconds in cost["gates"].items()]


def _table(rows: int, seed: int, first_day: int) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {name: random.normal(0, 1, rows).astype(np.float32) for name in _NUMBERS}
    texts = {name: random.choice([f"{name[0]}{place}" for place in range(12)], rows) for name in _TEXTS}
    odds = np.sum(list(columns.values()), axis=0) / 3 + 0.5 * (texts["shop"] == "s1")
    days = np.sort(random.integers(0, 30 * world.DAY, rows)) + first_day * world.DAY
    labels = (random.random(rows) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return pa.table({**columns, **texts, world.TIME: days, world.LABEL: labels})


def _main(rows: int) -> None:
    from tidegate_validation.evidence import Evidence
    from tidegate_validation.gates import run_gates

    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        root = Path(folder)
        example: dict[str, object] = {**dict.fromkeys(_NUMBERS, 0.5), "shop": "s1", "colour": "c1", "route": "r1"}
        versions = [
            world.publish(
                root,
                version,
                Draft(
                    _MODEL.replace("SCALE", f"{1.0 - 0.01 * version}"),
                    _SIGNATURE,
                    training=_table(40_000, version, world.FIRST_DAY),
                    example=example,
                ),
            )
            for version in (1, 2)
        ]
        held_out = _table(rows, 9, world.FIRST_DAY + 31)
        begun = time.monotonic()
        verdict = run_gates(versions[1], Evidence(held_out, world.LABEL, baseline=versions[0]))
        seconds = time.monotonic() - begun
    if not verdict.allowed:
        raise SystemExit(f"the release that should cost was refused: {verdict.sentence}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    gates = {gate.gate: gate.seconds for gate in verdict.gates}
    print(json.dumps({"seconds": seconds, "megabytes": peak, "gates": gates}))


if __name__ == "__main__":
    _main(int(sys.argv[1]))
