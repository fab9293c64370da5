"""Components whose process is killed and run again, where a component could forget what it had decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.orchestrators.killer import Killer, State, state
from tests.support.orchestrators.launched_task import Task
from tests.support.release.world import BETTER, RAISES, Endpoints, World, serve_first, traffic

from tidegate_operators.steps import promote, push

OFTEN_RAISES = RAISES.replace("> 0.9", "> 0.52")
RULE = {"pairs": 10, "within_seconds": 30.0, "max_error_share": 0.3, "max_slow_share": 0.9}


def test_a_canary_that_was_killed_after_it_took_its_version_out_ends_refused_all_the_same(
    killer: Killer, endpoints: Endpoints, world: World, tmp_path: Path
) -> None:
    def canary(name: str) -> dict[str, str]:
        serve_first(endpoints, world, name)
        push(directory=world.admitted(2, OFTEN_RAISES, name=name), control=endpoints.control)
        told = {"servable": name, "version": 2, "rule": RULE, "control": endpoints.control, "fail_on_refusal": True}
        return {"component": "canary", "document": Task("canary", tmp_path / name).document(told, {})}

    unharmed = canary("unharmed")
    with traffic(endpoints.grpc, "unharmed"):
        wanted = killer("kfp", unharmed)
    assert wanted["ended"] == "refused", wanted
    for back in range(4):
        name = f"killed{back}"
        arguments = canary(name)
        with traffic(endpoints.grpc, name):
            killer("kfp", arguments, wanted["boundaries"] - back)  # some canaries need a look less, and end unharmed
            assert killer("kfp", arguments)["ended"] == "refused"
        assert state(endpoints, name) == State((1,), frozenset({1}), {"stable": 1}, None)


def test_a_canary_stands_for_its_own_run_alone(endpoints: Endpoints, world: World, tmp_path: Path) -> None:
    serve_first(endpoints, world, "runs")
    push(directory=world.admitted(2, BETTER, name="runs"), control=endpoints.control)

    def canary(run: str, seconds: float) -> str:
        task, rule = Task("canary", tmp_path, run), {**RULE, "within_seconds": seconds}
        told = {"servable": "runs", "version": 2, "rule": rule, "control": endpoints.control, "fail_on_refusal": False}
        assert task(told) == 0, task.said
        return task.parameter("outcome")

    with traffic(endpoints.grpc, "runs"):
        assert canary("first", 30.0) == "PASS"
    assert canary("first", 30.0) == "PASS", "the task's pod started again"
    assert canary("second", 0.5) == "INCONCLUSIVE", "nobody asked anything during it"


def test_a_rollback_of_the_next_run_goes_back_again_and_a_pod_that_starts_again_does_not(
    endpoints: Endpoints, world: World, tmp_path: Path
) -> None:
    said: dict[str, Any] = {"control": endpoints.control, "servable": "back"}

    def release(*versions: int) -> None:
        for version in versions:
            push(directory=world.repository / "back" / str(version), control=endpoints.control)
            promote(**said, version=version)

    def back(run: str) -> int:
        task = Task("rollback", tmp_path, run)
        assert task({**said, "once": True, "reason": "error rate"}) == 0, task.said
        return int(task.parameter("stable"))

    serve_first(endpoints, world, "back")
    for version in (2, 3):
        world.admitted(version, BETTER, name="back")
    release(2, 3)
    assert (back("monday"), back("monday")) == (2, 2)
    release(3)
    assert (back("monday"), back("tuesday")) == (3, 2)
