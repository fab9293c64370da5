"""When a canary stops looking, on a clock moved by hand, and that its clock has to be the engine's."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.support.release.world import Endpoints, World, available, serve_first

from tidegate_operators.steps import canary, push
from tidegate_operators.steps.canary import observe
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_validation.canary.judgement import CanaryResult, judge
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryMode, CanaryRule

RULE = CanaryRule()


class Clock:
    """Seconds that pass only when somebody pauses or looks slowly."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def look(compared: int, errors: int = 0) -> CanaryResult:
    return judge("m:2", CanaryNumbers(shadowed=compared, compared=compared, errors=errors), RULE)


def test_looking_ends_as_soon_as_the_evidence_suffices() -> None:
    clock = Clock()
    growing = iter(look(compared) for compared in (0, 40, 300, 5000, 9000))
    found = observe(lambda: next(growing), 10.0, clock, clock.pause)
    assert (found.outcome, found.numbers.compared) == (Outcome.PASS, 5000)
    assert 0.0 < clock.now < 10.0


def test_looking_ends_when_the_time_is_over_and_looks_once_more_at_the_end() -> None:
    clock = Clock()
    seen: list[float] = []

    def read() -> CanaryResult:
        seen.append(clock.now)
        return look(7)

    assert observe(read, 10.0, clock, clock.pause).outcome is Outcome.INCONCLUSIVE
    assert seen[-1] == 10.0


def test_looking_ends_at_once_on_a_sure_fault() -> None:
    clock = Clock()
    assert observe(lambda: look(20, errors=20), 10.0, clock, clock.pause).outcome is Outcome.FAIL
    assert clock.now == 0.0


def test_pauses_grow_with_the_time_that_a_look_takes() -> None:
    clock = Clock()
    looks: list[float] = []

    def slow() -> CanaryResult:
        looks.append(clock.now)
        clock.pause(2.0)
        return look(7)

    observe(slow, 10.0, clock, clock.pause)
    assert looks[:3] == [0.0, 4.0, 8.0]


@pytest.mark.parametrize("mode", list(CanaryMode))
@pytest.mark.parametrize(("seconds", "words"), [(300, "300 s ahead of the engine's"), (-300, "300 s behind the")])
def test_a_clock_that_is_minutes_off_is_named_before_anything_is_judged_by_it(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch, mode: CanaryMode, seconds: int, words: str
) -> None:
    name = f"clock{mode.value}{seconds}"
    serve_first(endpoints, world, name)
    push(directory=world.admitted(2, name=name), control=endpoints.control)
    off = SimpleNamespace(time=lambda: time.time() + seconds, sleep=time.sleep, monotonic=time.monotonic)
    monkeypatch.setattr(sys.modules["tidegate_operators.steps.canary"], "time", off)  # the package has a step so named
    with pytest.raises(FailedPrecondition, match=f"{words}.* set by NTP"):
        canary(control=endpoints.control, servable=name, version=2, rule=replace(RULE, mode=mode, within_seconds=5.0))
    assert available(endpoints, name) == [1]
