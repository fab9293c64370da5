"""Takes the measures of group `lifecycle`, all or those named on the command line, and writes `build/lifecycle.json`.

Run by `make bench GROUP=lifecycle`; each module beside this one holds one measure or a few that share a set-up.
"""

from __future__ import annotations

import sys

from tests.bench.lifecycle import interference, lookup, many, memory, small, start, swap
from tests.bench.rows import Measure, run_group

MEASURES: list[tuple[str, Measure]] = [
    ("swap", swap.measure),
    ("memory", memory.measure),
    ("small", small.measure),
    ("interference", interference.measure),
    ("many", many.measure),
    ("lookup", lookup.measure),
    ("start", start.measure),
]

if __name__ == "__main__":
    sys.exit(run_group("lifecycle", MEASURES, sys.argv[1:]))
