"""Takes the measures of group `skew`, all or those named on the command line, and writes `build/skew.json`.

Run by `make bench GROUP=skew`; FULL=1 takes as many seeds as the record wants. `record` looks at months on which
nothing was tuned, and `peers` installs other tools (1.6 GB), so these are taken only where they are named.
"""

from __future__ import annotations

import sys
from functools import partial

from tests.bench.rows import Measure, run_group
from tests.bench.skew import drawn, made_up, over_time, paired, peers, planted, rollback, undrifted
from tests.bench.skew.sizes import FULL, SMALL

NAMED_ONLY = ("record", "peers")


def main(arguments: list[str]) -> int:
    """The exit status: 1 where a target is missed."""
    sizes = FULL if "--full" in arguments else SMALL
    wanted = [one for one in arguments if one != "--full"]
    measures: list[tuple[str, Measure]] = [
        ("undrifted", partial(undrifted.flights, sizes)),
        ("streams", partial(undrifted.streams, sizes)),
        ("small-shifts", partial(undrifted.small_shifts, sizes)),
        ("all-rows", partial(planted.all_rows, sizes)),
        ("part-of-rows", partial(planted.part_of_rows, sizes)),
        ("mishaps", partial(made_up.mishaps, sizes)),
        ("calm", partial(made_up.calm, sizes)),
        ("drawn", partial(drawn.measure, sizes)),
        ("keyed-pairs", partial(paired.measure, sizes)),
        ("over-time", partial(over_time.measure, sizes)),
        ("rollback", partial(rollback.measure, sizes)),
        ("record", partial(undrifted.record, sizes)),
        ("peers", partial(peers.measure, sizes)),
    ]
    return run_group("skew", measures, wanted or [name for name, _ in measures if name not in NAMED_ONLY])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
