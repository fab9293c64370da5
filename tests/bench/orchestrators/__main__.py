"""Takes the measures of group `orchestrators`, all or those named on the command line.

Run by `make bench GROUP=orchestrators`, which writes `build/orchestrators.json`; each module beside this one holds one
measure or a few that share a set-up.
"""

from __future__ import annotations

import sys

from tests.bench.orchestrators import concurrent, killed, parsing, progressive, scheduled
from tests.bench.rows import Measure, run_group

MEASURES: list[tuple[str, Measure]] = [
    ("concurrent", concurrent.measure),
    ("killed", killed.measure),
    ("parsing", parsing.measure),
    ("progressive", progressive.measure),
    ("scheduled", scheduled.measure),
]

if __name__ == "__main__":
    sys.exit(run_group("orchestrators", MEASURES, sys.argv[1:]))
