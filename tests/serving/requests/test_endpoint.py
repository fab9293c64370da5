"""The endpoint: each visit is one `apply`, labels and shadow wait for their versions, and nothing is released twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.fakes import FakePlane, FakeServable, manifest_of

from tidegate_serving.config import BatchingConfig, EngineConfig, ModelConfig
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.status import Shadow
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.requests.limits import Limits
from tidegate_serving.requests.model_traffic import ModelTraffic
from tidegate_serving.requests.plane import Endpoint
from tidegate_serving.requests.traffic import Split


class Bench:
    def __init__(self, config: EngineConfig | None = None) -> None:
        self.released: list[tuple[str, int]] = []
        self.endpoint = Endpoint(config or EngineConfig(), lambda name, version: self.released.append((name, version)))
        self.plane = FakePlane()
        self.endpoint.open(self.plane)

    def publish(self, version: int) -> None:
        identity = ServableId("m", version)
        self.endpoint.publish(identity, LoadedVersion(manifest_of(identity), FakeServable()))

    def retire(self, version: int) -> None:
        self.endpoint.retire(ServableId("m", version))

    @property
    def applied(self) -> list[list[str]]:
        return self.plane.applied


def test_a_label_moves_in_the_apply_that_publishes_its_version() -> None:
    bench = Bench()
    bench.endpoint.set_labels("m", {"stable": 1})
    assert bench.applied == []
    bench.publish(1)
    bench.endpoint.set_labels("m", {"stable": 2})
    assert bench.endpoint.labels("m") == {"stable": 1}
    assert bench.endpoint.held("m") == {1}
    bench.publish(2)
    assert bench.applied == [["Publish", "SetLabels"], ["Publish", "SetLabels"]]
    assert bench.endpoint.labels("m") == {"stable": 2}
    assert bench.endpoint.held("m") == frozenset()


def test_where_stable_appears_ordinary_clients_stay_where_they_are_until_its_version_has_come() -> None:
    bench = Bench()
    bench.publish(1)
    bench.publish(2)
    bench.endpoint.set_labels("m", {"stable": 3})
    assert (bench.endpoint.labels("m"), bench.endpoint.ordinary("m")) == ({"stable": 2}, 2)
    assert bench.endpoint.held("m") == {2}
    bench.publish(3)
    assert (bench.endpoint.labels("m"), bench.endpoint.ordinary("m")) == ({"stable": 3}, 3)


def test_where_stable_leaves_ordinary_clients_go_to_what_is_wanted_and_nowhere_else() -> None:
    bench = Bench()
    bench.publish(1)
    bench.publish(2)
    bench.endpoint.set_labels("m", {"stable": 1, "canary": 2}, {1, 2})
    bench.endpoint.set_labels("m", {}, {1})
    assert (bench.endpoint.ordinary("m"), bench.applied[-1]) == (1, ["SetLabels", "SetDefault"])
    bench.retire(2)
    assert (bench.endpoint.ordinary("m"), bench.applied[-1]) == (1, ["Retire", "SetDefault"])
    bench.endpoint.set_labels("m", {}, {1, 3})
    bench.publish(3)
    assert (bench.endpoint.ordinary("m"), bench.applied[-1]) == (3, ["Publish"])


def test_until_a_wanted_version_is_there_ordinary_clients_stay_and_hold_theirs() -> None:
    bench = Bench()
    bench.publish(1)
    bench.publish(2)
    bench.endpoint.set_labels("m", {"stable": 1}, {1, 2})
    bench.endpoint.set_labels("m", {}, {3})
    assert bench.endpoint.ordinary("m") == 1
    assert bench.endpoint.held("m") == {1}
    bench.retire(1)
    assert bench.endpoint.ordinary("m") == 2, "where theirs leaves all the same"
    bench.publish(3)
    assert (bench.endpoint.ordinary("m"), bench.endpoint.held("m")) == (3, frozenset())


def test_a_label_waits_only_beside_versions_that_are_there() -> None:
    traffic = ModelTraffic("m", wanted_labels={"stable": 1}).settled()
    assert traffic.waiting == frozenset()
    beside = replace(traffic, versions=frozenset({2})).settled()
    assert beside.waiting == {"stable"}
    assert [type(change).__name__ for change in beside.changes_from(traffic)] == ["SetLabels"]
    there = replace(beside, versions=frozenset({1, 2})).settled()
    assert (there.waiting, there.labels) == (frozenset(), {"stable": 1})


def test_a_label_on_a_present_version_moves_at_once() -> None:
    bench = Bench()
    bench.publish(1)
    bench.publish(2)
    bench.endpoint.set_labels("m", {"stable": 1})
    bench.endpoint.set_labels("m", {"stable": 2, "canary": 2})
    bench.endpoint.set_labels("m", {"stable": 2, "canary": 2})
    bench.endpoint.set_labels("m", {})
    assert bench.applied[2:] == [["SetLabels"]] * 3
    assert bench.endpoint.labels("m") == {}


def test_a_retired_version_takes_its_labels_and_its_shadow_along() -> None:
    bench = Bench()
    bench.publish(1)
    bench.publish(2)
    bench.endpoint.set_labels("m", {"stable": 1, "canary": 2})
    bench.endpoint.set_shadow("m", Shadow(2, 0.5))
    bench.retire(2)
    assert bench.applied[-1] == ["Retire", "SetLabels"]
    assert (bench.endpoint.labels("m"), bench.endpoint.shadow("m")) == ({"stable": 1}, None)
    bench.publish(2)
    assert bench.applied[-1] == ["Publish", "SetLabels", "SetShadow"], "the wish still stands"


def test_a_shadow_waits_for_its_version_and_ends_when_told() -> None:
    bench = Bench()
    bench.publish(1)
    bench.endpoint.set_shadow("m", Shadow(2, 0.5))
    assert bench.applied == [["Publish"]]
    bench.publish(2)
    bench.endpoint.set_shadow("m", Shadow(2, 0.0))
    assert bench.applied[1:] == [["Publish", "SetShadow"], ["SetShadow"]]
    assert bench.endpoint.shadow("m") is None


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


def test_labels_of_the_config_wait_like_any_other() -> None:
    bench = Bench(EngineConfig(models={"m": ModelConfig(labels={"stable": 2})}))
    bench.publish(1)
    bench.publish(2)
    assert bench.endpoint.labels("m") == {"stable": 2}


def test_what_the_plane_refuses_changes_nothing() -> None:
    bench = Bench()
    bench.publish(1)
    bench.endpoint.set_labels("m", {"stable": 1})
    bench.plane.refusal = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        bench.publish(2)
    with pytest.raises(ValueError, match="no"):
        bench.endpoint.set_labels("m", {"stable": 1, "gold": 1})
    bench.plane.refusal = None
    assert bench.endpoint.labels("m") == {"stable": 1}
    bench.publish(2)
    assert bench.applied[-1] == ["Publish"]


def test_a_version_is_released_once() -> None:
    bench = Bench()
    bench.publish(1)
    bench.endpoint.on_released("m", 1)
    assert bench.released == [], "it is not leaving"
    bench.retire(1)
    assert bench.released == []
    bench.endpoint.on_released("m", 1)
    bench.endpoint.on_released("m", 1)
    bench.endpoint.close()
    assert bench.released == [("m", 1)]


def test_after_the_drain_everything_is_released_at_once() -> None:
    bench = Bench()
    bench.publish(1)
    bench.publish(2)
    bench.retire(1)
    bench.endpoint.close()
    bench.retire(2)
    assert bench.released == [("m", 1), ("m", 2)]
    with pytest.raises(FailedPrecondition, match="stopping"):
        bench.publish(3)


def test_a_split_begins_with_the_first_version_and_ends_with_the_last() -> None:
    bench = Bench()
    split = Split({1: 0.9, 2: 0.1}, "x-user")
    bench.endpoint.set_split("m", split)
    assert (bench.applied, bench.endpoint.split("m")) == ([], split)
    bench.publish(1)
    bench.publish(2)
    bench.endpoint.set_split("m", split)
    bench.endpoint.set_split("m", None)
    assert bench.applied == [["Publish", "SetSplit"], ["Publish"], ["SetSplit"]]


@pytest.mark.parametrize(
    ("shares", "key", "why"),
    [({1: 0.5}, "", "sum to 0.5"), ({1: 1.5, 2: -0.5}, "", "version 1 a share of 1.5"), ({1: 1.0}, "a b", "'a b'")],
)
def test_a_split_that_cannot_be_is_refused(shares: dict[int, float], key: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Split(shares, key)


def test_a_model_switched_off_before_the_plane_opens_is_off_once_it_does() -> None:
    bench = Bench()
    other = Endpoint(EngineConfig(), lambda name, version: None)
    other.set_enabled("m", False, "wrong prices")
    other.open(bench.plane)
    assert bench.applied == [["SetDisabled"]]
    assert other.off("m") == "wrong prices"
    other.set_enabled("m", True, "")
    assert (bench.applied[1:], other.off("m")) == ([["SetDisabled"]], None)
    with pytest.raises(InvalidInput, match="without a reason"):
        other.set_enabled("m", False, "")


def test_batching_changes_what_serves_and_what_comes_later() -> None:
    bench = Bench(EngineConfig(models={"m": ModelConfig(batching=BatchingConfig(concurrency=3))}))
    assert bench.endpoint.batching("m").concurrency == 3
    bench.endpoint.set_batching("m", BatchingConfig(max_batch_rows=7))
    assert (bench.applied, bench.endpoint.batching("m").max_batch_rows) == ([["SetBatching"]], 7)
    bench.endpoint.set_batching("m", None)
    assert bench.endpoint.batching("m").concurrency == 3


def test_the_log_rate_changes_where_there_is_a_log(tmp_path: Path) -> None:
    bench = Bench(EngineConfig(log_path=tmp_path, log_sampling_rate=0.5))
    bench.publish(1)
    bench.endpoint.set_log_rate("m", 0.1)
    assert bench.endpoint.log_rate("m") == 0.1
    bench.endpoint.set_log_rate("m", None)
    assert bench.endpoint.log_rate("m") == 0.5
    assert bench.applied == [["Publish", "SetLog"], ["SetLog"], ["SetLog"]]
    with pytest.raises(InvalidInput, match="2: use a share"):
        bench.endpoint.set_log_rate("m", 2)
    with pytest.raises(FailedPrecondition, match="set log_path"):
        Bench().endpoint.set_log_rate("m", 1.0)


def test_limits_reach_the_plane_at_once() -> None:
    bench = Bench(EngineConfig(max_connections=9))
    bench.endpoint.set_limits(Limits(1000, 10, 2.5))
    assert bench.plane.limits[0]["max_connections"] == 9
    assert bench.plane.limits[1:] == [
        {"max_message_bytes": 1000, "max_connections": 10, "request_timeout_ms": 2500},
    ]
    assert bench.endpoint.limits().max_connections == 10
    with pytest.raises(InvalidInput, match="max_message_bytes is 0"):
        Limits(0, 10, 2.5)
