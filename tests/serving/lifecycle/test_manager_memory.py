"""The manager and memory, stepped by hand: estimates, budgets by device, measured sizes, and waiting for room."""

from __future__ import annotations

import pytest
from tests.support.lifecycle.fakes import FakeLoader
from tests.support.lifecycle.manager_bench import STEADY, Bench

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.lifecycle.manager import ManagerOptions
from tidegate_serving.lifecycle.memory import GrowthGauge
from tidegate_serving.lifecycle.policy import resource_preserving
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.platforms.memory_need import RAM
from tidegate_serving.sources.target import AspiredVersion


def test_memory_is_waited_for_then_used() -> None:
    bench = Bench(ManagerOptions(policy=resource_preserving, memory_limits={RAM: 10}))
    bench.loaders = {n: FakeLoader(ServableId("m", n), size=6) for n in (1, 2)}
    bench.want(1)
    bench.settle()
    bench.want(2)
    bench.manager.tick()
    assert bench.loaders[2].loads == 0, "the first version has not given its memory back"
    bench.settle()
    assert bench.live() == ["m:2"]


def test_what_never_fits_says_how_much_it_needs() -> None:
    bench = Bench(ManagerOptions(memory_limits={RAM: 10}))
    bench.loaders = {1: FakeLoader(ServableId("m", 1), size=11)}
    bench.want(1)
    bench.settle()
    change = bench.monitor.state(ServableId("m", 1))
    assert change is not None
    assert change.error_code == "resource_exhausted"
    assert "insufficient memory to load m:1: it needs 11 bytes, 0 of 10 are reserved" in change.error_message


def test_a_load_waits_for_another_to_fail_before_it_gives_up_on_memory() -> None:
    bench = Bench(ManagerOptions(memory_limits={RAM: 10}))
    bench.loaders = {2: FakeLoader(ServableId("m", 2), size=8, failures=1), 1: FakeLoader(ServableId("m", 1), size=8)}
    bench.want(1, 2)
    bench.manager.tick()
    assert bench.state(1) is State.START
    bench.loads.run_all()
    bench.settle()
    assert bench.live() == ["m:1"]


def test_an_estimate_that_fails_is_a_failed_load() -> None:
    bench = Bench()

    class Unreadable(FakeLoader):
        def estimate(self) -> int:
            raise TidegateError("no manifest")

    bench.loaders = {1: Unreadable(ServableId("m", 1))}
    bench.want(1)
    bench.settle()
    assert bench.error(1) == "internal"
    assert bench.loaders[1].loads == 0


def test_memory_is_reserved_on_the_device_that_a_version_names() -> None:
    bench = Bench(ManagerOptions(memory_limits={RAM: 100, "gpu:0": 10}))
    bench.loaders = {n: FakeLoader(ServableId("m", n), size={RAM: 5, "gpu:0": 6}) for n in (1, 2)}
    bench.loaders[3] = FakeLoader(ServableId("m", 3), size={RAM: 5, "gpu:1": 600})
    bench.want(1, 2, 3)
    bench.settle()
    assert bench.live() == ["m:2", "m:3"]
    change = bench.monitor.state(ServableId("m", 1))
    assert change is not None
    assert change.error_message == (
        "insufficient gpu:0 memory to load m:1: it needs 6 bytes, 6 of 10 are reserved; "
        "raise device_limits_bytes or serve fewer versions"
    )


def test_memory_that_comes_free_is_used_at_once_and_not_after_the_pause() -> None:
    bench = Bench(ManagerOptions(memory_limits={RAM: 10}))
    bench.loaders = {n: FakeLoader(ServableId("m", n), size=8) for n in (1, 2)}
    bench.want(2)
    bench.settle()
    bench.want(1, 2)
    bench.settle()
    assert bench.error(1) == "resource_exhausted"
    bench.want(1)
    bench.settle()
    assert bench.live() == ["m:2"], "nothing stands in for it while the other does not fit"
    bench.manager.reconfigure(
        ManagerOptions(policy=resource_preserving, retry=STEADY, clock=bench.clock, memory_limits={RAM: 10})
    )
    bench.settle()
    assert bench.live() == ["m:1"], "its pause was not over"


def test_what_a_loader_measured_replaces_its_estimate() -> None:
    bench = Bench(ManagerOptions(memory_limits={RAM: 10}))
    bench.loaders = {n: FakeLoader(ServableId("m", n), size=6, measured={RAM: 3}) for n in (1, 2)}
    bench.want(1)
    bench.settle()
    assert bench.manager.reserved(ServableId("m", 1)) == {RAM: 3}
    bench.want(1, 2)
    bench.settle()
    assert bench.live() == ["m:1", "m:2"]


def test_what_a_gpu_holds_says_nothing_about_what_the_process_grew_by() -> None:
    bench = Bench(ManagerOptions(memory_limits={"gpu:0": 10}))

    class Growing(FakeLoader):
        def load(self) -> LoadedVersion:
            bench.resident += 500 << 20
            return super().load()

    bench.loaders[1] = Growing(ServableId("m", 1), size={RAM: 100 << 20, "gpu:0": 6}, measured={"gpu:0": 4})
    bench.want(1)
    bench.settle()
    assert bench.manager.reserved(ServableId("m", 1)) == {RAM: 500 << 20, "gpu:0": 4}


@pytest.mark.parametrize(
    ("grown", "kept"), [(500, 500), (101, 100), (70, 70), (40, 100)], ids=["more", "noise", "less", "free before"]
)
def test_what_the_process_grew_by_replaces_the_estimate_where_it_can_be_believed(grown: int, kept: int) -> None:
    megabyte = 1 << 20
    bench = Bench()

    class Growing(FakeLoader):
        def load(self) -> LoadedVersion:
            bench.resident += grown * megabyte
            return super().load()

    bench.loaders[1] = Growing(ServableId("m", 1), size=100 * megabyte)
    bench.want(1)
    bench.settle()
    assert bench.manager.reserved(ServableId("m", 1)) == {RAM: kept * megabyte}


def test_growth_while_two_versions_load_belongs_to_neither() -> None:
    gauge = GrowthGauge(lambda: 0)
    first, second = gauge.begin(), gauge.begin()
    assert gauge.end(second) is None
    assert gauge.end(first) is None
    assert gauge.end(gauge.begin()) == 0


def test_an_estimate_below_zero_is_refused() -> None:
    bench = Bench()
    bench.loaders[1] = FakeLoader(ServableId("m", 1), size=-1)
    bench.want(1)
    bench.settle()
    assert bench.error(1) == InvalidInput.code


def test_a_version_that_waits_for_memory_is_tried_when_a_load_has_failed() -> None:
    bench = Bench(ManagerOptions(memory_limits={RAM: 10}))
    bench.loaders = {1: FakeLoader(ServableId("m", 1), size=8, failures=1)}
    bench.want(1)
    other = FakeLoader(ServableId("other", 1), size=8)
    bench.manager.set_aspired_versions("other", [AspiredVersion(other.id, other)])
    bench.manager.tick()
    bench.loads.run_all()
    bench.manager.tick()
    assert (len(bench.loads.tasks), other.loads) == (1, 0)
    bench.loads.run_all()
    bench.manager.tick()
    bench.loads.run_all()
    assert other.loads == 1
