"""Takes the measures of group `attack`, all or those named on the command line, and writes `build/attack.json`.

Run by `make bench GROUP=attack`. Each attack meets an engine of its own in the default configuration, while good
clients of both protocols ask at a steady rate. ENDINGS=20 takes fewer instants for SIGTERM than 200, ENDINGS_SEED=8
others, and MIX_SECONDS=120 a shorter mix.
"""

from __future__ import annotations

import functools
import sys

from tests.bench.attack import attacks, endings, loading, mixed, neighbours, small_print
from tests.bench.attack.places import before_others
from tests.bench.attack.siege import besiege
from tests.bench.rows import Measure, run_group

MEASURES: list[tuple[str, Measure]] = [
    *((name, functools.partial(besiege, name, attack)) for name, attack in attacks.ATTACKS.items()),
    ("mass-time-out", neighbours.mass_time_out),
    ("lone-request", neighbours.lone_request),
    ("endings", endings.measure),
    ("loading", loading.measure),
    ("small-print", small_print.measure),
    ("mixed", mixed.measure),
]

if __name__ == "__main__":
    with before_others():
        sys.exit(run_group("attack", MEASURES, sys.argv[1:]))
