"""The demo on fewer flights than it takes, for tests that run all of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from tests.support.flights import all_flights
from tests.support.orchestrators.direct_runner import DirectRunner

from tidegate_flights.data import Flights
from tidegate_flights.demo import run_demo
from tidegate_flights.features import EVENT_TIME
from tidegate_flights.options import DemoOptions
from tidegate_flights.prepare import REPLAYED_DAY

DAY = 86400
MARGINS = """
[quality]
margin = 0.08
loss_margin = 0.2
slice_margin = 0.5
"""
"""So few held-out flights cannot tell small losses: the bounds are wide, the gates are those of the demo."""


def fewer_flights() -> Flights:
    """Every sixth flight to train on and to judge by, and three days of June around the replayed one."""
    flights = all_flights()
    begin = int(REPLAYED_DAY.timestamp())
    june = flights.june[flights.june[EVENT_TIME].between(begin - DAY, begin + 2 * DAY)]
    return Flights(
        rows_read=flights.rows_read,
        training=_every(flights.training, 6),
        held_out=_every(flights.held_out, 6),
        june=june.reset_index(drop=True),
    )


def _every(frame: pd.DataFrame, n: int) -> pd.DataFrame:
    return frame.iloc[::n].reset_index(drop=True)


def demo(
    folder: Path, policy_text: str, printed: io.StringIO | None = None, **options: Any
) -> tuple[int, dict[str, Any], str]:
    """Exit status, summary and what was printed."""
    printed = printed or io.StringIO()
    policy = folder.with_suffix(".toml")
    policy.write_text(policy_text)
    status = run_demo(
        DemoOptions(folder=folder, **options),
        console=Console(file=printed, width=200),
        read=fewer_flights,
        runner=DirectRunner(policy),
    )
    path = folder / "summary.json"
    summary: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return status, summary, printed.getvalue()
