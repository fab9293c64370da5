"""Takes the measures of group `attack`, all or those named on the command line, and writes `build/attack.json`.

Run by `make bench GROUP=attack`. Each attack meets an engine of its own in the default configuration, while good
clients of both protocols ask at a steady rate. ENDINGS=20 takes fewer instants for SIGTERM than 200, ENDINGS_SEED=8
others, and MIX_SECONDS=120 a shorter mix. ROUTED=1 attacks a router in front of that engine instead, by what goes
through its ports, and writes `build/attack-routed.json`.
"""

from __future__ import annotations

import functools
import os
import sys

from tests.bench.attack import attacks, endings, loading, mixed, neighbours, small_print
from tests.bench.attack.places import before_others
from tests.bench.attack.siege import besiege
from tests.bench.rows import Measure, run_group

ROUTED = bool(os.environ.get("ROUTED"))
ATTACKS: list[tuple[str, Measure]] = [
    (name, functools.partial(besiege, name, attack, routed=ROUTED)) for name, attack in attacks.ATTACKS.items()
]
MEASURES: list[tuple[str, Measure]] = [
    ("mass-time-out", neighbours.mass_time_out),
    ("lone-request", neighbours.lone_request),
    ("endings", endings.measure),
    ("loading", loading.measure),
    ("small-print", small_print.measure),
    ("mixed", mixed.measure),
]

if __name__ == "__main__":
    with before_others():
        sys.exit(
            run_group("attack-routed", ATTACKS, sys.argv[1:])
            if ROUTED
            else run_group("attack", [*ATTACKS, *MEASURES], sys.argv[1:])
        )
