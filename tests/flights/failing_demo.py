"""A demo that does not hold, end to end; `make test-extras` runs it, for it takes as long as one that does.

`test_summary.py` and `test_replay.py` hold each way of failing by itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.release.small_demo import MARGINS, demo

ONE_GATE = f"""
run = ["quality"]
required = ["quality"]
{MARGINS}"""


def test_one_wrong_expected_value_makes_the_demo_fail(tmp_path: Path) -> None:
    status, summary, told = demo(
        tmp_path / "demo", ONE_GATE, mistake="none", corrupt_answers=1, skew_column="hour", skew_factor=60
    )
    assert status == 1, told
    assert summary["ok"] is False
    assert summary["requests"]["wrong"] >= 1
    assert summary["versions"] == {"1": "END", "2": "END", "3": "AVAILABLE"}, told
    assert summary["clean_day"] == {"hour": "PASS"}
    assert summary["wrong_unit_day"] == {"hour": "FAIL", "factor": pytest.approx(60, rel=0.01)}
    assert told.count("!!") == 2, "the wrong answers are the only thing that does not hold"
