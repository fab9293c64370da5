"""One measured figure beside what it must reach, and the file and table that a group of them makes.

The groups `lifecycle`, `gate` and `orchestrators` hand their rows in; `build/GROUP.json` and standard output get them.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table
from tests.bench.servers import ROOT, guided


@dataclass(frozen=True, slots=True)
class Row:
    """One measure: its value in `unit`, the target in words, and whether it holds; None where nothing is promised."""

    measure: str
    value: float
    unit: str
    target: str
    holds: bool | None


Measure = Callable[[], Sequence[Row]]


def run_group(group: str, measures: Sequence[tuple[str, Measure]], wanted: Sequence[str]) -> int:
    """Takes the measures named in `wanted`, all of them where it is empty; 1 where one fails or misses its target.

    Every finished measure is written at once, so that a run that breaks off leaves what it had. One that fails says
    why, and the others are taken all the same.
    """
    unknown = set(wanted) - {name for name, _ in measures}
    if unknown:
        raise SystemExit(f"no measure is called {', '.join(sorted(unknown))}: use {', '.join(n for n, _ in measures)}")
    print(f"measured with the {'guided' if guided() else 'plain'} wheel", flush=True)
    rows: list[Row] = []
    failed: list[str] = []
    for name, measure in measures:
        if wanted and name not in wanted:
            continue
        begun = time.monotonic()
        try:
            rows += measure()
        except Exception:
            traceback.print_exc()
            failed.append(name)
            continue
        _write(group, rows)
        print(f"{name} is measured, which took {time.monotonic() - begun:.0f} s", flush=True)
    _show(rows)
    if failed:
        print(f"failed, with the reasons above: {', '.join(failed)}", flush=True)
    return int(bool(failed) or any(row.holds is False for row in rows))


def _write(group: str, rows: Sequence[Row]) -> None:
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    (build / f"{group}.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def _show(rows: Sequence[Row]) -> None:
    table = Table("measure", "value", "unit", "target", "holds")
    words = {True: "yes", False: "NO", None: "-"}
    for row in rows:
        table.add_row(row.measure, f"{row.value:,.4g}", row.unit, row.target, words[row.holds])
    Console(width=140).print(table)
