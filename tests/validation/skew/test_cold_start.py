"""A report on two files in a new process loads none of the libraries that take longer to load than it takes to make."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_CODE = """
import json, sys
from tidegate_validation.skew import report_on_tables
report = report_on_tables(*sys.argv[1:3])
heavy = ("pandas", "polars", "scipy.stats", "sklearn", "matplotlib")
print(json.dumps({"loaded": [name for name in heavy if name in sys.modules], "found": report.to_dict()["outcome"]}))
"""


def test_a_report_on_two_files_loads_no_large_library(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    for name in ("before", "now"):
        price, city = random.integers(1, 900, 4_000) / 4, random.choice(["Bonn", "Köln", "Ulm"], 4_000)
        columns = {"price": price, "weight": random.gamma(3, 1, 4_000), "city": city.tolist()}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    files = [str(tmp_path / f"{name}.parquet") for name in ("before", "now")]
    done = subprocess.run([sys.executable, "-c", _CODE, *files], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"loaded": [], "found": "PASS"}
