"""The front of the data plane: each change is one `apply`, and nothing is released twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.lifecycle.fakes import FakePlane, FakeServable, manifest_of

from tidegate_serving.config import BatchingConfig, EngineConfig, ModelConfig
from tidegate_serving.contract.desired_state import Shadow, Split
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.requests.limits import Limits
from tidegate_serving.requests.model_traffic import ModelTraffic
from tidegate_serving.requests.plane_front import PlaneFront


class Bench:
    """A front over a plane that remembers; `traffic` is what was told last, as the reconciler tells it."""

    def __init__(self, config: EngineConfig | None = None) -> None:
        self.released: list[tuple[str, int]] = []
        self.front = PlaneFront(config or EngineConfig(), lambda name, version: self.released.append((name, version)))
        self.plane = FakePlane()
        self.front.open(self.plane)
        self.traffic = ModelTraffic("m")

    def publish(self, version: int, labels: Mapping[str, int] | None = None) -> None:
        identity = ServableId("m", version)
        publication = self.front.prepare(identity, LoadedVersion(manifest_of(identity), FakeServable()))
        versions = self.traffic.versions | {version}
        after = replace(self.traffic, versions=versions, labels=labels or {}, ordinary=max(versions))
        self.front.publish(identity, publication, after)
        self.traffic = after

    def retire(self, version: int) -> bool:
        versions = self.traffic.versions - {version}
        self.traffic = replace(self.traffic, versions=versions, ordinary=max(versions, default=None), shadow=None)
        return self.front.retire(ServableId("m", version), self.traffic)

    def apply(self, **changes: object) -> None:
        self.traffic = replace(self.traffic, **changes)  # type: ignore[arg-type]
        self.front.apply(self.traffic)

    @property
    def applied(self) -> list[list[str]]:
        return self.plane.applied


def test_a_label_moves_in_the_apply_that_publishes_its_version() -> None:
    bench = Bench()
    bench.publish(1, {"stable": 1})
    bench.publish(2, {"stable": 2})
    assert bench.applied == [["Publish", "SetLabels"], ["Publish", "SetLabels"]]


def test_what_has_not_changed_is_not_told() -> None:
    bench = Bench()
    bench.publish(1, {"stable": 1})
    bench.apply(labels={"stable": 1})
    assert len(bench.applied) == 1
    bench.apply(labels={})
    bench.apply(waiting=frozenset({"stable"}), ordinary=None)
    assert bench.applied[1:] == [["SetLabels"], ["SetLabels"]]


def test_ordinary_requests_are_told_where_to_go_only_where_that_is_not_the_newest_version() -> None:
    bench = Bench()
    bench.publish(1)
    bench.publish(2)
    assert bench.applied == [["Publish"], ["Publish"]]
    bench.apply(ordinary=1)
    assert bench.applied[-1] == ["SetDefault"]
    bench.retire(2)
    assert bench.applied[-1] == ["Retire", "SetDefault"], "version 1 is the newest now"


def test_a_shadow_begins_changes_and_ends_and_goes_with_its_version() -> None:
    bench = Bench()
    bench.publish(1)
    bench.publish(2)
    bench.apply(shadow=Shadow(2, 0.5))
    bench.apply(shadow=Shadow(2, 0.7))
    bench.apply(shadow=None)
    assert bench.applied[2:] == [["SetShadow"]] * 3
    bench.apply(shadow=Shadow(2, 0.5))
    bench.retire(2)
    assert bench.applied[-1] == ["Retire"], "the plane takes the shadow of a retired version away itself"


def test_logging_is_set_with_the_first_version() -> None:
    models = {"m": ModelConfig(log_sampling_rate=0.5)}
    bench = Bench(EngineConfig(log_path=Path("log"), models=models))
    bench.publish(1)
    bench.publish(2)
    assert bench.applied == [["Publish", "SetLog"], ["Publish"]]
    bench.retire(1)
    bench.retire(2)
    bench.publish(3)
    assert bench.applied[-1] == ["Publish", "SetLog"]


def test_what_the_plane_refuses_counts_as_not_told() -> None:
    bench = Bench()
    bench.publish(1, {"stable": 1})
    bench.plane.refusal = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        bench.publish(2, {"stable": 1, "gold": 2})
    bench.plane.refusal = None
    bench.publish(2, {"stable": 1, "gold": 2})
    assert bench.applied[-1] == ["Publish", "SetLabels"]


def test_a_version_is_released_once() -> None:
    bench = Bench()
    bench.publish(1)
    bench.front.on_released("m", 1)
    assert bench.released == [], "it is not leaving"
    assert bench.retire(1)
    assert bench.released == []
    bench.front.on_released("m", 1)
    bench.front.on_released("m", 1)
    bench.front.close()
    assert bench.released == [("m", 1)]


def test_after_the_drain_everything_is_released_at_once() -> None:
    bench = Bench()
    bench.publish(1)
    bench.publish(2)
    bench.retire(1)
    bench.front.close()
    assert not bench.retire(2)
    assert bench.released == [("m", 1), ("m", 2)]
    with pytest.raises(FailedPrecondition, match="stopping"):
        bench.publish(3)


def test_a_split_is_told_when_it_begins_and_when_it_ends() -> None:
    bench = Bench()
    bench.publish(1)
    bench.apply(split=Split({1: 0.9, 2: 0.1}, "x-user"))
    bench.publish(2)
    bench.apply(split=None)
    assert bench.applied == [["Publish"], ["SetSplit"], ["Publish"], ["SetSplit"]]


@pytest.mark.parametrize(
    ("shares", "key", "why"),
    [({1: 0.5}, "", "sum to 0.5"), ({1: 1.5, 2: -0.5}, "", "version 1 a share of 1.5"), ({1: 1.0}, "a b", "'a b'")],
)
def test_a_split_that_cannot_be_is_refused(shares: dict[int, float], key: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Split(shares, key)


def test_a_model_switched_off_before_the_plane_opens_is_off_once_it_does() -> None:
    plane, front = FakePlane(), PlaneFront(EngineConfig(), lambda name, version: None)
    front.apply(ModelTraffic("m", disabled="wrong prices"))
    front.open(plane)
    assert plane.applied == [["SetDisabled"]]
    front.apply(ModelTraffic("m"))
    assert plane.applied[1:] == [["SetDisabled"]]


def test_batching_changes_what_serves_and_what_comes_later() -> None:
    bench = Bench(EngineConfig(models={"m": ModelConfig(batching=BatchingConfig(concurrency=3))}))
    assert bench.front.batching("m").concurrency == 3
    bench.front.set_batching("m", BatchingConfig(max_batch_rows=7))
    assert (bench.applied, bench.front.batching("m").max_batch_rows) == ([["SetBatching"]], 7)
    bench.front.set_batching("m", None)
    assert bench.front.batching("m").concurrency == 3


def test_the_log_rate_changes_where_there_is_a_log(tmp_path: Path) -> None:
    bench = Bench(EngineConfig(log_path=tmp_path, log_sampling_rate=0.5))
    bench.publish(1)
    bench.front.set_log_rate("m", 0.1)
    assert bench.front.log_rate("m") == 0.1
    bench.front.set_log_rate("m", None)
    assert bench.front.log_rate("m") == 0.5
    assert bench.applied == [["Publish", "SetLog"], ["SetLog"], ["SetLog"]]
    with pytest.raises(InvalidInput, match="2: use a share"):
        bench.front.set_log_rate("m", 2)
    with pytest.raises(FailedPrecondition, match="set log_path"):
        Bench().front.set_log_rate("m", 1.0)


def test_limits_reach_the_plane_at_once() -> None:
    bench = Bench(EngineConfig(max_connections=9))
    bench.front.set_limits(Limits(1000, 10, 2.5))
    assert bench.plane.limits[0]["max_connections"] == 9
    assert bench.plane.limits[1:] == [
        {"max_message_bytes": 1000, "max_connections": 10, "request_timeout_ms": 2500},
    ]
    assert bench.front.limits().max_connections == 10
    with pytest.raises(InvalidInput, match="max_message_bytes is 0"):
        Limits(0, 10, 2.5)
