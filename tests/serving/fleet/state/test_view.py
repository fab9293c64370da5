"""What a fleet reads in etcd: an entry that cannot be is left out, and the rest is decided on as before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.fleet.decision.decision import Memory, decide
from tidegate_serving.fleet.decision.rollout import Seen
from tidegate_serving.fleet.etcd.client import Entry, Snapshot
from tidegate_serving.fleet.state.model import FleetModel
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.fleet.state.view import FleetView, Usage, usage_bytes, wanted_bytes

NODE = Node("a", "a:1", "a:2", "a:3", 15)
MODEL = FleetModel(DesiredState("m", revision=1), rate_per_copy=1.0)
GOOD = {"nodes/a": NODE.to_bytes(), "models/m": MODEL.to_bytes()}
WRONG = [float("nan"), float("inf"), float("-inf"), -1.0, 10**400, "x", None, [], {}]
BYTES = [b"\xff", b"[" * 100_000, b"9" * 5000, b"null", b'{"nodes": {"m": 1}}', b"NaN"]


def read(entries: Mapping[str, bytes]) -> FleetView:
    return FleetView.of(Snapshot(1, {key: Entry(value, 1) for key, value in {**GOOD, **entries}.items()}))


def changed(data: bytes, **changes: Any) -> bytes:
    return json.dumps({**json.loads(data), **changes}).encode()


def assert_decided(view: FleetView) -> None:
    """The good model and node are there, and something is decided."""
    assert (set(view.nodes), set(view.models)) == ({"a"}, {"m"})
    assert decide(view, {"a": Seen()}, (), Memory(), 1000.0).told.keys() == {"a"}


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("key", ["file_bytes", "measured_bytes", "rate_per_copy", "used_at", "copies", "desired"])
def test_a_model_with_a_value_that_cannot_be_is_left_out(key: str, wrong: Any) -> None:
    other = changed(FleetModel(DesiredState("n", revision=1)).to_bytes(), **{key: wrong})
    assert_decided(read({"models/n": other}))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
def test_nothing_that_could_not_be_read_is_written(wrong: float) -> None:
    with pytest.raises(InvalidInput, match=f"the rate for one copy of m is {wrong}: use a number from 0"):
        replace(MODEL, rate_per_copy=wrong)
    view = read({"models/n": changed(FleetModel(DesiredState("n", revision=1)).to_bytes(), rate_per_copy=wrong)})
    assert view.unread == {"n"}


def test_a_model_under_the_name_of_another_is_left_out() -> None:
    assert_decided(read({"models/n": FleetModel(DesiredState("o", revision=1)).to_bytes()}))


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_a_node_without_a_capacity_is_left_out(wrong: Any) -> None:
    assert_decided(read({"nodes/b": changed(NODE.to_bytes(), capacity_bytes=wrong)}))


@pytest.mark.parametrize("key", ["grpc", "rest", "control"])
@pytest.mark.parametrize("address", ["b", "b:x", "b:99999999", "b :1", "b\n:1", "ftp://b:1", "b:1,c:1", "::1:1"])
def test_a_node_that_cannot_be_reached_by_its_address_is_left_out(key: str, address: str) -> None:
    assert_decided(read({"nodes/b": changed(NODE.to_bytes(), **{key: address})}))


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("key", ["rate", "used_at"])
def test_usage_that_cannot_be_is_left_out(key: str, wrong: Any) -> None:
    good = {"rate": 1.0, "used_at": 1.0}
    view = read({"usage/r": changed(usage_bytes({}), models={"m": {**good, key: wrong}})})
    assert view.usage == ()
    assert_decided(view)
    assert read({"usage/r": usage_bytes({"m": Usage(1.0, 1.0)})}).usage == ({"m": Usage(1.0, 1.0)},)


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_a_wish_at_no_time_is_left_out(wrong: Any) -> None:
    view = read({"wanted/m": changed(wanted_bytes(1.0), at=wrong)})
    assert view.wanted == {}
    assert_decided(view)


@pytest.mark.parametrize("data", BYTES, ids=range(len(BYTES)))
@pytest.mark.parametrize("key", ["placement", "nodes/b", "models/n", "wanted/m", "usage/r"])
def test_bytes_that_are_no_document_are_left_out(key: str, data: bytes) -> None:
    assert_decided(read({key: data}))
