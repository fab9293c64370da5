"""How long the hub's pages take over 1,000 models x 90 days x 20 features, on SQLite and on PostgreSQL, and how large
they are. MODELS in the environment makes it smaller, to try it.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from tests.bench.rows import Row
from tests.support.hub_history import Size, make_history
from tests.support.hub_pages import serving
from tests.support.postgresql import postgresql

from tidegate_pipelines.hub.store import Database

_PAGES = (
    "/",
    "/models",
    "/models?q=12&sort=name&page=2",
    "/models?skew=FAIL",
    "/models/model-0007",
    "/models/model-0007?days=90",
    "/features/model-0007?name=feature_01&days=90",
    "/releases",
    "/releases?state=REFUSED",
    "/releases/77",
    "/engines",
)
_TIMES = 40
_SLOWEST_MS = 200.0
_LARGEST_KB = 150.0


def measure() -> Sequence[Row]:
    """Both databases."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        rows += _on(f"sqlite:///{Path(folder)}/hub.db", "SQLite")
    with postgresql() as server:
        rows += _on(server.new_database("history"), "PostgreSQL")
    return rows


def _on(url: str, kind: str) -> Iterator[Row]:
    database = Database(url)
    tomorrow = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    make_history(database, Size(models=int(os.environ.get("MODELS", "1000")), until=tomorrow))
    slowest, largest = ("", 0.0), ("", 0.0)
    with serving(database, None) as address, httpx.Client(base_url=address, timeout=60) as client:
        for path in _PAGES:
            p95, kilobytes = _asked(client, path)
            slowest, largest = max(slowest, (path, p95), key=_second), max(largest, (path, kilobytes), key=_second)
            if path == "/":
                yield Row(f"pages on {kind}: first page", kilobytes, "kB", "at most 150", kilobytes <= _LARGEST_KB)
    database.close()
    yield Row(f"pages on {kind}: p95 of {slowest[0]}", slowest[1], "ms", "at most 200", slowest[1] <= _SLOWEST_MS)
    yield Row(f"pages on {kind}: largest, {largest[0]}", largest[1], "kB", "", None)


def _asked(client: httpx.Client, path: str) -> tuple[float, float]:
    """The 95th percentile in milliseconds, and the size in kB."""
    taken, size = [], 0
    for number in range(_TIMES + 3):
        begun = time.perf_counter()
        answer = client.get(path, headers={"accept": "text/html"})
        taken.append(1000 * (time.perf_counter() - begun))
        assert answer.status_code == 200, f"{path}: {answer.text[:500]}"
        size = len(answer.content)
        if number < 3:
            taken.clear()
    return statistics.quantiles(taken, n=20)[-1], size / 1000


def _second(pair: tuple[str, float]) -> float:
    return pair[1]
