"""Requests of the control port with texts and lists that nobody needs so long: refused in a word that arrives, kept by
nobody, and what others did stays in the journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import digest_of, publish

from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import InvalidInput, ModelFailed, NotFound
from tidegate_serving.control_client import ControlClient

LONG = 3_500_000


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlClient]:
    root = tmp_path / "models"
    directory = publish(root, "m", 1)
    with (
        EngineProcess(tmp_path, allow_unverified=True, roots=[root], state_directory=tmp_path / "state") as engine,
        engine.control() as control,
    ):
        control.set_desired_state(
            DesiredState("m", (VersionReference(1, directory, digest_of(directory)),), requested_by="a")
        )
        yield control


def test_a_split_by_a_header_that_there_cannot_be_changes_nothing(control: ControlClient) -> None:
    with pytest.raises(InvalidInput, match=r"a split's key 'kkk.* cannot be a metadata key or header"):
        control.split("m", {1: 1.0}, key="k" * LONG, requested_by="mallory")
    (model,) = control.status("m").servables
    assert model.overrides == ()


def test_what_cannot_be_had_is_no_clients_to_say(control: ControlClient) -> None:
    desired = replace(control.desired("m"), unusable={2: ModelFailed("x" * LONG)})
    assert control.set_desired_state(desired) == 2
    (model,) = control.status("m").servables
    assert (model.desired.unusable, [version.version for version in model.versions]) == ({}, [1])


def test_more_labels_than_anybody_can_look_through_are_refused(control: ControlClient) -> None:
    desired = control.desired("m")
    with pytest.raises(InvalidInput, match="'m' is to have 1001 labels: name at most 1000"):
        control.set_desired_state(replace(desired, labels={f"l{number}": 1 for number in range(1001)}))
    assert control.set_desired_state(replace(desired, labels={f"l{number}": 1 for number in range(1000)}))


def test_a_refusal_that_names_what_was_sent_arrives(control: ControlClient) -> None:
    for letter in ("x", "é", "%", "\n", "\U0001f600"):
        long = letter * (LONG // len(letter.encode()))
        with pytest.raises(InvalidInput, match="servable name"):
            control.set_desired_state(DesiredState(long, requested_by="mallory"))
        with pytest.raises(InvalidInput, match="servable name"):
            control.set_desired_state(replace(control.desired("m"), labels={long: 1}))
        with pytest.raises((InvalidInput, NotFound), match="servable"):
            control.override("freeze", long, requested_by="mallory")


def test_refusals_do_not_wash_away_what_others_did(control: ControlClient) -> None:
    control.override("freeze", "m", requested_by="anna", reason="it is late")
    for _ in range(12):
        with pytest.raises((InvalidInput, NotFound)):
            control.override("freeze", "x" * LONG, requested_by="mallory")
    entries = control.journal()
    assert [entry.reason for entry in entries if entry.action == "freeze" and entry.requested_by == "anna"] == [
        "it is late"
    ]
    assert sum(entry.requested_by == "mallory" for entry in entries) == 12
    assert max(len(entry.text) + len(entry.servable) for entry in entries) < 20_000
