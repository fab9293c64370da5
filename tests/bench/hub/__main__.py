"""Takes the measures of group `hub`, all or those named on the command line, and writes `build/hub.json`.

Run by `make bench GROUP=hub`; each module beside this one holds one measure or a few that share a set-up. RELEASES and
KILLS in the environment say how long hubs are killed.
"""

from __future__ import annotations

import sys

from tests.bench.hub import engine_away, killed, outages, pages, registry
from tests.bench.rows import Measure, run_group

MEASURES: list[tuple[str, Measure]] = [
    ("webhooks", registry.webhooks),
    ("registry", registry.latency),
    ("pages", pages.measure),
    ("outages", outages.measure),
    ("engine-away", engine_away.measure),
    ("killed", killed.measure),
]

if __name__ == "__main__":
    sys.exit(run_group("hub", MEASURES, sys.argv[1:]))
