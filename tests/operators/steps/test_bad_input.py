"""Steps that are called with what cannot be: a clear error with code, thing and cure, and nothing lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.release.world import BETTER, Endpoints, World, available, serve_first

from tidegate_operators.steps import CanaryTurn, Evidence, canary, canary_turn, promote, push, upload, validate
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, NotFound


@pytest.mark.parametrize("name", ["a/b", "../keys", "<script>alert(1)</script>"])
def test_a_name_with_slashes_or_markup_is_refused_by_every_step(endpoints: Endpoints, world: World, name: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: canary(control=endpoints.control, servable=name, version=2),
        lambda: push(directory=f"s3://bucket/models/../{name}/2", control=endpoints.control),
        lambda: world.publish(2, name=name),
    ]
    for call in calls:
        with pytest.raises(InvalidInput) as refused:
            call()
        assert name in refused.value.message
    with pytest.raises((InvalidInput, FailedPrecondition)):
        promote(control=endpoints.control, servable=name, version=2)


def test_a_task_that_runs_again_after_its_version_was_deleted_says_so(endpoints: Endpoints, world: World) -> None:
    serve_first(endpoints, world, "gone")
    second = world.admitted(2, BETTER, name="gone")
    shutil.rmtree(second)
    with pytest.raises(NotFound, match=f"{second} is not on this machine: publish it, mount the engine's root here"):
        push(directory=second, control=endpoints.control)
    calls: list[Callable[[], Any]] = [
        lambda: validate(second, Evidence(world.held_out), private_key=world.private_key),
        lambda: canary_turn(directory=second, control=endpoints.control, turn=CanaryTurn("again", 0.0)),
        lambda: upload(second, f"file://{world.root}/store"),
    ]
    for call in calls:
        with pytest.raises(NotFound, match=rf"{second} .*publish it again"):
            call()
    with pytest.raises(FailedPrecondition, match="gone:2 is not live"):
        promote(control=endpoints.control, servable="gone", version=2)
    assert available(endpoints, "gone") == [1]
