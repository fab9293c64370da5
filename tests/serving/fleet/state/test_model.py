"""What a model of a fleet remembers of what served: a rollback goes back along it, and never forward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.control.overrides import Block, Note, Overrides
from tidegate_serving.fleet.state.model import FleetModel


def reference(number: int) -> VersionReference:
    return VersionReference(number, Path(f"/models/m/{number}"), f"{number:064x}", "onnx")


def served(model: FleetModel, number: int) -> FleetModel:
    """A version was pushed and promoted, and serves everywhere."""
    desired = model.desired.adding(reference(number))
    return replace(model, desired=desired.promoting(number)).advanced()


def gone_back(model: FleetModel) -> FleetModel:
    target = model.previous
    assert target is not None
    return served(model, target.version)


def test_a_second_rollback_goes_further_back_and_not_to_what_the_first_one_left() -> None:
    model = FleetModel(DesiredState("m"))
    for number in (1, 2, 3):
        model = served(model, number)
    once = gone_back(model)
    assert once.serving is not None
    assert once.serving.stable == 2
    twice = FleetModel.from_bytes("m", gone_back(once).to_bytes())
    assert twice.serving is not None
    assert (twice.serving.stable, twice.previous) == (1, None)


def test_what_was_gone_back_from_is_known_and_can_serve_again() -> None:
    model = gone_back(served(served(FleetModel(DesiredState("m")), 1), 2))
    assert model.known(2) is not None
    again = served(model, 2)
    assert again.previous is not None
    assert again.previous.version == 1


def test_what_its_nodes_keep_is_what_a_rollback_goes_back_to_once_all_that_is_wanted_serves() -> None:
    model = FleetModel(DesiredState("m", keep_previous=True))
    for number in (1, 2, 3):
        model = served(model, number)
    assert model.kept == {2}
    going = replace(model, desired=model.desired.adding(reference(2)).promoting(2))
    assert not going.settled
    assert going.kept == {1}
    assert going.advanced().kept == {1}


def test_what_served_before_takes_the_place_of_a_blocked_version_and_not_a_candidate() -> None:
    model = served(served(FleetModel(DesiredState("m")), 1), 2)
    blocks = (Block(2, f"{2:064x}", Note("anna", "it is late", 1)),)
    model = replace(model, overrides=Overrides(blocks=blocks))
    assert (sorted(model.wanted.numbers), model.wanted.labels) == ([1], {"stable": 1})
    model = model.advanced()
    tried = replace(model, desired=model.desired.adding(reference(3)))
    assert (sorted(tried.wanted.numbers), tried.wanted.labels) == ([1, 3], {"stable": 1})
    promoted = replace(tried, desired=tried.desired.promoting(3))
    assert (sorted(promoted.wanted.numbers), promoted.wanted.labels) == ([3], {"stable": 3})


def test_a_newer_version_serves_beside_a_blocked_one_where_no_label_says_what_does() -> None:
    versions = list(map(reference, (1, 2, 3)))
    blocks = (Block(2, f"{2:064x}", Note("anna", "it is late", 1)),)
    model = FleetModel(DesiredState("m", tuple(versions[:2])), overrides=Overrides(blocks=blocks))
    assert (sorted(model.wanted.numbers), model.wanted.stable) == ([1], 1)
    newer = replace(model.advanced(), desired=DesiredState("m", tuple(versions)))
    assert (sorted(newer.wanted.numbers), newer.wanted.stable) == ([1, 3], 3)
