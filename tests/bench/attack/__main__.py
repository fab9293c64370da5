"""Takes the measures of group `attack`, all or those named on the command line, and writes `build/attack.json`.

Run by `make bench GROUP=attack`. Each attack meets an engine of its own in the default configuration, while well-behaved
clients of both protocols ask at a steady rate.
"""

from __future__ import annotations

import functools
import sys

from tests.bench.attack import attacks, endings, neighbours
from tests.bench.attack.siege import besiege
from tests.bench.rows import Measure, run_group

MEASURES: list[tuple[str, Measure]] = [
    *((name, functools.partial(besiege, name, attack)) for name, attack in attacks.ATTACKS.items()),
    ("neighbours", neighbours.measure),
    ("endings", endings.measure),
]

if __name__ == "__main__":
    sys.exit(run_group("attack", MEASURES, sys.argv[1:]))
