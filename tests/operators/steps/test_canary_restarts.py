"""A canary whose engine starts anew meanwhile: it waits for it, and goes on where it was."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess, free_port
from tests.support.release.world import BETTER, World, traffic

from tidegate_operators.steps import CanaryResult, CanaryRule, CanaryTurn, away, canary, canary_turn, promote, push
from tidegate_operators.steps.canary_group import CanaryGroup
from tidegate_serving.contract.errors import FailedPrecondition, TidegateError, Unavailable
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control_client import ControlClient
from tidegate_validation.canary.rule import CanaryMode

NOBODY = "127.0.0.1:1"
RULE = CanaryRule(
    shares=(0.5, 1.0),
    pairs=20,
    step_rows=20,
    step_seconds=0.0,
    within_seconds=60.0,
    max_slow_share=0.9,
    max_slowdown=9.0,
    slowdown_grace_us=50_000.0,
)


def asks_until(engine: EngineProcess, name: str, over: threading.Event) -> None:
    """Asks over and over, also while no engine is there."""
    row = {"x": np.array([0.5], np.float32), "kind": np.array([b"a"], dtype=object)}
    with engine.client() as client:
        while not over.wait(0.005):
            with contextlib.suppress(TidegateError):
                client.predict(name, row)


@pytest.fixture(scope="module")
def restarted(world: World) -> Iterator[EngineProcess]:
    """An engine that has the same addresses each time it starts, and what it was told."""
    addresses = {f"{port}_address": f"127.0.0.1:{free_port()}" for port in ("grpc", "rest", "control")}
    engine = EngineProcess(
        world.root / "restarted",
        roots=[world.repository],
        trusted_keys=[world.public_key],
        state_directory=world.root / "restarted/state",
        log_path=world.root / "restarted/log",
        **addresses,
    )
    with engine:
        yield engine


def candidate(world: World, engine: EngineProcess, name: str) -> Path:
    control = engine.addresses["control"]
    push(directory=world.admitted(1, name=name), control=control)
    promote(control=control, servable=name, version=1)
    second = world.admitted(2, BETTER, name=name)
    push(directory=second, control=control)
    return second


@pytest.mark.parametrize(("mode", "when"), [(CanaryMode.SHADOW, 2), (CanaryMode.TRAFFIC, 1)])
def test_a_canary_outlasts_a_restart_of_its_engine(
    world: World, restarted: EngineProcess, monkeypatch: pytest.MonkeyPatch, mode: CanaryMode, when: int
) -> None:
    name = f"anew_{mode.value}_{when}"
    candidate(world, restarted, name)
    tell, told, said = CanaryGroup.tell, itertools.count(1), []

    def tell_after_a_crash(group: CanaryGroup, call: Callable[[ControlClient], Any], what: str = "") -> Sequence[Any]:
        if next(told) == when:
            restarted.kill()
            threads.submit(restarted.start)
        return tell(group, call, what)

    monkeypatch.setattr(CanaryGroup, "tell", tell_after_a_crash)
    monkeypatch.setattr(away._log, "warning", lambda words, *rest: said.append(words % rest))
    with ThreadPoolExecutor(2) as threads:
        asking = threads.submit(asks_until, restarted, name, over := threading.Event())
        rule = replace(RULE, mode=mode)
        try:
            found = canary(control=restarted.addresses["control"], servable=name, version=2, rule=rule)
        finally:
            over.set()
        asking.result()
    assert found.allowed, found.sentence
    assert len(said) == 1
    assert "it is waited for" in said[0]


def test_a_turn_that_meets_no_engine_leaves_the_canary_to_the_next_one(
    world: World, restarted: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, control = candidate(world, restarted, "turns"), restarted.addresses["control"]

    def turn(patience: float) -> CanaryResult | None:
        return canary_turn(directory=second, control=control, turn=CanaryTurn("run 1", patience), rule=RULE)

    assert turn(0.0) is None
    restarted.kill()
    monkeypatch.setattr(away, "_AWAY_SECONDS", 0.2)
    with pytest.raises(Unavailable, match="no engine answers"):
        turn(0.0)
    restarted.start()
    with traffic(restarted.addresses["grpc"], "turns"):
        found = turn(30.0)
    assert found is not None
    assert found.allowed


def test_a_group_of_which_no_engine_answers_is_waited_for() -> None:
    group = CanaryGroup(f"{NOBODY},127.0.0.1:2")
    group._logs = {NOBODY: "/log/a", "127.0.0.1:2": "/log/b"}
    missing = group.missing(ServableId("m", 2), lambda client: None)
    assert missing.awaited
    assert f"{NOBODY} does not answer since" in missing.sentence


def test_who_waited_in_vain_does_not_wait_again_to_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "_AWAY_SECONDS", 0.5)
    said: list[str] = []
    monkeypatch.setattr(away._log, "warning", lambda words, *rest: said.append(words % rest))
    group = CanaryGroup(NOBODY)

    def refuse(client: ControlClient) -> None:
        raise FailedPrecondition("no")

    with pytest.raises(FailedPrecondition):
        group.tell(refuse)
    for _ in range(2):
        with pytest.raises(Unavailable):
            group.tell(lambda client: client.desired("m"))
    assert len(said) == 1


@pytest.mark.parametrize("answers_after", [0.0, 59.0, 61.0])
def test_an_engine_is_waited_for_a_minute(answers_after: float) -> None:
    now = 1000.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    def call() -> str:
        if now < 1000.0 + answers_after:
            raise Unavailable("no engine answers")
        return "there"

    def asked() -> str:
        return away.outlast(call, lambda: now, pause)

    if answers_after <= 60.0:
        assert asked() == "there"
        return
    with pytest.raises(Unavailable, match="no engine answers"):
        asked()
    assert now == pytest.approx(1060.0, abs=1.0)
