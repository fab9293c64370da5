"""A change of the desired state that meets others: it looks again, pauses longer each time, and gives up in the end."""

from __future__ import annotations

import time
from collections.abc import Collection

import pytest

from tidegate_operators.steps.change_desired import change
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import Conflict
from tidegate_serving.control_client import ControlClient, ServableStatus


class Contested(ControlClient):
    """An engine where somebody else is quicker so many times."""

    def __init__(self, quicker: int) -> None:
        super().__init__("127.0.0.1:1")
        self.quicker = quicker
        self.revision = 0

    def servable(self, servable: str) -> ServableStatus:
        return ServableStatus(servable, DesiredState(servable, revision=self.revision))

    def set_desired_state(
        self,
        desired: DesiredState,
        expected_revision: int | None = None,
        lead: int | None = None,
        admitted: Collection[str] = (),
    ) -> int:
        assert expected_revision == self.revision, "it has looked again"
        self.revision += 1
        if self.revision <= self.quicker:
            raise Conflict("somebody else was quicker")
        return self.revision


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_it_edits_what_is_there_now_after_pauses_that_grow(slept: list[float]) -> None:
    with Contested(4) as control:
        made = change(control, "m", lambda status: status.desired, "because", "anna")
    assert (made.before.revision, made.revision) == (4, 5)
    assert (made.after.requested_by, made.after.reason) == ("anna", "because")
    assert len(slept) == 4
    assert slept == sorted(slept)
    assert 0 < slept[0] < slept[-1] <= 1.2


def test_it_gives_up_where_others_are_always_quicker(slept: list[float]) -> None:
    with Contested(1000) as control, pytest.raises(Conflict, match="somebody else was quicker"):
        change(control, "m", lambda status: status.desired, "because")
    assert (control.revision, len(slept)) == (40, 39)
    assert sum(slept) < 39
