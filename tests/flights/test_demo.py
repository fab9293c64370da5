"""The three trips end to end: real processes, real gates, real clients, on fewer flights than the demo takes."""

from __future__ import annotations

import io
import os
import signal
import threading
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from tests.support.eventually import eventually
from tests.support.orchestrators.direct_runner import DirectRunner
from tests.support.release.small_demo import MARGINS, demo, fewer_flights

from tidegate_flights.demo import run_demo
from tidegate_flights.options import DemoOptions
from tidegate_serving.contract.errors import InvalidInput


class Visitor:
    """Looks at the hub that a kept demo leaves up, and then ends the demo as `kill` does: Ctrl-C's signal does nothing
    where these tests were started in the background."""

    def __init__(self, printed: io.StringIO) -> None:
        self._printed = printed
        self.pages: dict[str, str] = {}
        self.releases: list[dict[str, Any]] = []
        self.skew: list[dict[str, Any]] = []
        self.address = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._visit)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _visit(self) -> None:
        eventually(lambda: "in the hub: http" in self._printed.getvalue() or self._over.is_set(), 500)
        if self._over.is_set():
            return
        try:
            self.address = self._printed.getvalue().split("in the hub: ")[1].split()[0]
            for path in ("/", "/releases/1", "/releases/3", "/models/flights"):
                self.pages[path] = httpx.get(self.address + path, headers={"accept": "text/html"}, timeout=30).text
            self.releases = httpx.get(f"{self.address}/api/v1/releases").json()
            self.skew = httpx.get(f"{self.address}/api/v1/skew", params={"model": "flights", "feature": ""}).json()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_wrong_unit_is_kept_out_while_version_2_serves_and_every_answer_is_right(tmp_path: Path) -> None:
    printed = io.StringIO()
    with Visitor(printed) as visitor:
        status, summary, told = demo(tmp_path / "demo", MARGINS, printed, mistake="unit", keep=True)
    assert status == 0, told
    assert summary["ok"] is True
    assert summary["versions"] == {"1": "END", "2": "AVAILABLE"}
    assert summary["requests"]["failed"] == summary["requests"]["wrong"] == 0
    assert set(summary["requests"]["by_version"]) == {"1", "2"}
    (refusal,) = summary["refused"]
    assert (refusal["gate"], refusal["feature"]) == ("skew", "distance")
    assert refusal["factor"] == pytest.approx(1.609, rel=0.01)
    assert summary["wrong_unit_day"]["factor"] == pytest.approx(1.609, rel=0.01)
    assert summary["log"]["eligible"] == summary["log"]["written"] > 2000
    assert summary["log"]["dropped"] == 0
    assert Path(summary["report"]).is_file()
    assert all(f"{step}/7" in told for step in range(1, 8))
    check_history(summary, visitor)


def check_history(summary: dict[str, Any], visitor: Visitor) -> None:
    """What a kept demo's hub showed; it has ended since."""
    assert summary["hub"] == visitor.address
    found = {one["version"]: one["state"] for one in visitor.releases}
    assert found == {1: "RELEASED", 2: "RELEASED", 3: "REFUSED"}
    assert [one["state"] for one in visitor.skew][:2] == ["PASS", "FAIL"], "the newest first: the day sent rightly"
    assert "was released; clients get version 2 now" in visitor.pages["/releases/1"]
    assert "1.609 times" in visitor.pages["/releases/3"]
    assert "answers ordinary clients" in visitor.pages["/models/flights"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(visitor.address)


def test_a_folder_with_somebody_elses_files_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    with pytest.raises(InvalidInput, match="not the demo's"):
        run_demo(DemoOptions(folder=tmp_path), read=fewer_flights, runner=DirectRunner())
    assert precious.read_text() == "mine"
