"""Words of a client or a model pass for no record of the log, and steer no terminal that shows it."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from tests.support.clients import rest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.log_lines import LineFormatter

FORGED = "2026-01-01 00:00:00,000 ERROR tidegate_serving.admission all is lost"
SOURCE = f"""
class Model:
    def predict(self, inputs):
        if (inputs["x"] == 666).any():
            raise ValueError("red \\x1b[31m\\r\\n{FORGED}")
        return {{"y": inputs["x"]}}
"""


def test_further_lines_are_set_in_and_what_steers_is_shown() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, "by %s", (f"me\x1b[2J\n{FORGED}\x85\u2028é",), None)
    first, second = LineFormatter().format(record).splitlines()
    assert first.endswith(" INFO a by me\\x1b[2J")
    assert second == f"    {FORGED}\\x85\\u2028é"


@pytest.mark.parametrize("isolation", ["engine", "pool"])
def test_what_a_model_raises_is_no_record_of_its_own(tmp_path: Path, isolation: str) -> None:
    publish(tmp_path / "r", "m", 1, Draft(files={"model.py": SOURCE}))
    config = {"repository": tmp_path / "r", "allow_unverified": True, "isolation": isolation}
    with EngineProcess(tmp_path / "engine", **config) as engine:
        assert rest.predict(engine.addresses["rest"], "m", [666.0]).status == 500
        eventually(lambda: "all is lost" in engine.said())
        said = engine.said()
    assert not re.search(r"^2026-01-01", said, re.MULTILINE)
    assert "\x1b" not in said
    assert "red \\x1b[31m\\r" in said
