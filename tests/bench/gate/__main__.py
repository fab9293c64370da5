"""Takes the measures of group `gate`, all or those named on the command line, and writes `build/gate.json`.

Run by `make bench GROUP=gate`; each module beside this one holds one measure or a few that share a set-up.
"""

from __future__ import annotations

import sys

from tests.bench.gate import canary, quality, quality_cost, quality_faults, robustness
from tests.bench.rows import Measure, run_group

MEASURES: list[tuple[str, Measure]] = [
    ("canary", canary.measure),
    ("robustness", robustness.measure),
    ("equal-models", quality.equal_models),
    ("worse-slices", quality.worse_slices),
    ("quality-faults", quality_faults.faults),
    ("cost", quality_cost.measure),
]

if __name__ == "__main__":
    sys.exit(run_group("gate", MEASURES, sys.argv[1:]))
