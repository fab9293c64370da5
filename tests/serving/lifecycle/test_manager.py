"""The manager, stepped by hand: versions come, follow each other, fail and go."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.lifecycle.fakes import FakeLoader
from tests.support.lifecycle.manager_bench import STEADY, Bench

from tidegate_serving.contract.errors import Cancelled, InvalidInput, ModelFailed, TidegateError, Unsupported
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.lifecycle.manager import ManagerOptions
from tidegate_serving.lifecycle.policy import Action, VersionSnapshot, availability_preserving, resource_preserving
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.sources.target import AspiredVersion


def test_a_version_lives_and_dies_in_public() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    bench.want()
    bench.settle()
    assert bench.log.of(ServableId("m", 1)) == ["START", "LOADING", "AVAILABLE", "UNLOADING", "END"]
    assert (bench.loaders[1].loads, bench.loaders[1].unloads) == (1, 1)
    assert bench.live() == []


def test_available_is_told_after_it_can_be_looked_up_and_unloading_before_it_is_hidden() -> None:
    bench = Bench()
    seen: list[tuple[str, bool]] = []
    there = ServableId("m", 1)
    bench.events.subscribe(lambda change: seen.append((change.state.name, there in bench.map.live)))
    bench.want(1)
    bench.settle()
    bench.want()
    bench.settle()
    assert seen == [("START", False), ("LOADING", False), ("AVAILABLE", True), ("UNLOADING", True), ("END", False)]


def test_the_same_wish_again_does_nothing() -> None:
    bench = Bench()
    bench.want(1, 2)
    bench.settle()
    before = list(bench.log.changes)
    for _ in range(3):
        bench.want(1, 2)
        bench.settle()
    assert bench.log.changes == before
    assert bench.loaders[1].loads == bench.loaders[2].loads == 1


def test_a_version_left_out_is_unloaded_and_the_newer_comes_first() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    bench.want(2)
    bench.manager.tick()
    assert bench.live() == ["m:1"], "the old version serves while the new one loads"
    bench.settle()
    assert bench.live() == ["m:2"]
    assert bench.state(1) is State.END


def test_resource_preserving_lets_go_first() -> None:
    bench = Bench(ManagerOptions(policy=resource_preserving))
    bench.want(1)
    bench.settle()
    bench.want(2)
    bench.manager.tick()
    assert bench.live() == []
    assert bench.loads.tasks == []
    bench.settle()
    assert bench.live() == ["m:2"]


def test_start_is_told_before_the_call_returns() -> None:
    bench = Bench()
    bench.want(7)
    assert bench.state(7) is State.START


def test_only_the_newest_wish_counts() -> None:
    bench = Bench()
    bench.want(1)
    bench.want(2)
    bench.want(3)
    bench.settle()
    assert bench.live() == ["m:3"]
    assert (bench.loaders[1].loads, bench.loaders[2].loads) == (0, 0)
    assert bench.error(1) == Cancelled.code


def test_several_actions_in_one_tick() -> None:
    bench = Bench()
    bench.want(1, 2)
    bench.want(9, name="other")
    bench.manager.tick()
    assert bench.loads.run_all() == 2, "the sizes of m:2 and other:9 are asked for"
    bench.manager.tick()
    assert len(bench.loads.tasks) == 3, "those two load, and m:1 is asked for its size"


def test_failed_loads_are_tried_again_with_growing_pauses_for_ever() -> None:
    bench = Bench()
    bench.loaders = {1: FakeLoader(ServableId("m", 1), failures=6)}
    bench.want(1)
    bench.settle()
    assert bench.error(1) == "unavailable"
    for attempt, pause in enumerate([1.0, 2.0, 4.0, 8.0, 8.0], start=1):
        bench.clock.now += pause - 0.01
        bench.settle()
        assert bench.loaders[1].loads == attempt, "too early"
        bench.clock.now += 0.02
        bench.settle()
        assert bench.loaders[1].loads == attempt + 1
    bench.clock.now += 8.1
    bench.settle()
    assert bench.state(1) is State.AVAILABLE
    assert bench.log.of(ServableId("m", 1)) == [*(["START", "LOADING", "END"] * 6), "START", "LOADING", "AVAILABLE"]


def test_a_bound_of_retries_is_kept_until_something_changes() -> None:
    bench = Bench(retries=2)
    bench.loaders = {1: FakeLoader(ServableId("m", 1), failures=99)}
    bench.want(1)
    for _ in range(6):
        bench.settle()
        bench.clock.now += 100
    assert bench.loaders[1].loads == 3
    bench.want(1)
    bench.settle()
    assert bench.loaders[1].loads == 3, "the same wish is no news"
    bench.manager.retry_failed()
    for _ in range(6):
        bench.settle()
        bench.clock.now += 100
    assert bench.loaders[1].loads == 6, "another config gives it all its attempts again"
    bench.want(1, origin="mended")
    bench.settle()
    assert bench.loaders[1].loads == 7
    bench.want()
    bench.settle()
    bench.manager.retry_failed()
    bench.settle()
    assert bench.loaders[1].loads == 7, "nobody wants it any more"


def test_a_trace_is_shown_once_for_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()

    class Breaks(FakeLoader):
        def load(self) -> LoadedVersion:
            self.loads += 1
            if self.loads == 3:
                raise KeyError("another reason")
            raise ValueError(f"attempt {self.loads}")

    bench.loaders = {1: Breaks(ServableId("m", 1))}
    bench.want(1)
    for _ in range(4):
        bench.settle()
        bench.clock.now += 100
    traced = ["Traceback" in record.getMessage() for record in caplog.records]
    assert traced == [True, False, True, True]


def test_what_is_wanted_of_a_model_is_not_what_is_left_of_it() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    version = ServableId("m", 1)
    assert bench.manager.wanted("m") == {version: (State.AVAILABLE, None)}
    bench.want()
    assert bench.manager.wanted("m") == {}, "it is still in the map, but nobody wants it"
    bench.manager.tick()
    bench.want(1)
    assert bench.manager.wanted("m") == {version: (State.START, None)}, "it leaves first"
    bench.release()
    seen: list[object] = []
    bench.events.subscribe(lambda change: seen.append(change.state))
    bench.unloads.run_all()
    assert seen[0] is State.END
    assert bench.manager.wanted("m") == {version: (State.START, None)}
    bench.settle()
    assert bench.manager.wanted("m") == {version: (State.AVAILABLE, None)}
    bench.loaders[2] = FakeLoader(ServableId("m", 2), failures=1)
    bench.want(2)
    bench.settle()
    state, error = bench.manager.wanted("m")[ServableId("m", 2)]
    assert (state, error is not None) == (State.END, True)


def test_the_old_version_serves_while_the_new_one_fails() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    bench.loaders[2] = FakeLoader(ServableId("m", 2), failures=99)
    bench.want(2)
    bench.settle()
    assert bench.live() == ["m:1"]


def test_rolling_back_from_a_version_that_fails_keeps_the_old_one() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    bench.loaders[2] = FakeLoader(ServableId("m", 2), failures=99)
    bench.want(2)
    bench.settle()
    bench.want(1)
    bench.settle()
    assert bench.live() == ["m:1"]
    assert bench.loaders[1].loads == 1, "it never left"
    bench.clock.now += 100
    bench.settle()
    assert bench.loaders[2].loads == 1, "nobody wants it any more"


def test_a_new_origin_starts_a_failed_version_at_once() -> None:
    bench = Bench()
    bench.loaders = {1: FakeLoader(ServableId("m", 1), failures=1)}
    bench.want(1, origin="first")
    bench.settle()
    bench.want(1, origin="first")
    bench.settle()
    assert bench.loaders[1].loads == 1, "the same wish does not hurry a retry"
    bench.want(1, origin="second")
    assert bench.state(1) is State.START, "the old error is gone when the call returns"
    bench.settle()
    assert bench.state(1) is State.AVAILABLE


def test_a_version_asked_for_again_while_it_leaves_is_loaded_fresh_afterwards() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    bench.want()
    bench.manager.tick()
    assert bench.state(1) is State.UNLOADING
    bench.want(1)
    bench.manager.tick()
    bench.loads.run_all()
    assert bench.live() == [], "the old instance has a handle out"
    assert bench.loaders[1].loads == 1
    bench.settle()
    assert bench.live() == ["m:1"]
    assert (bench.loaders[1].loads, bench.loaders[1].unloads) == (2, 1)


def test_nothing_is_unloaded_while_a_handle_is_out() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    bench.want()
    bench.manager.tick()
    bench.unloads.run_all()
    bench.manager.tick()
    assert bench.loaders[1].unloads == 0
    assert bench.state(1) is State.UNLOADING
    bench.settle()
    assert bench.loaders[1].unloads == 1


def test_a_load_nobody_wants_any_more_is_not_begun() -> None:
    bench = Bench()
    bench.want(1)
    bench.manager.tick()
    bench.want()
    bench.settle()
    assert bench.loaders[1].loads == 0
    assert bench.error(1) == Cancelled.code


def test_a_load_that_ends_after_it_was_given_up_is_unloaded_at_once() -> None:
    bench = Bench()
    loader = FakeLoader(ServableId("m", 1))
    bench.loaders = {1: loader}
    bench.want(1)
    bench.manager.tick()
    original = loader.load

    def load_while_given_up() -> object:
        bench.want()
        return original()

    loader.load = load_while_given_up  # type: ignore[assignment,method-assign]
    bench.settle()
    assert bench.live() == []
    assert (loader.loads, loader.unloads) == (1, 1)
    assert bench.error(1) == Cancelled.code


def test_a_version_that_comes_with_an_error_ends_with_it_and_hurts_no_other() -> None:
    bench = Bench()
    bad: AspiredVersion[FakeLoader] = AspiredVersion(ServableId("m", 2), None, Unsupported("no such platform"))
    wanted: Sequence[AspiredVersion[FakeLoader]] = [bench.version(1), bad]
    bench.manager.set_aspired_versions("m", wanted)
    bench.settle()
    assert bench.live() == ["m:1"]
    assert bench.error(2) == "unsupported"


def test_a_held_version_stays_until_its_label_has_moved() -> None:
    bench = Bench()
    bench.want(1, 2)
    bench.settle()
    bench.loaders[3] = FakeLoader(ServableId("m", 3))
    bench.map.held_versions["m"] = frozenset({2})
    bench.want(1, 3)
    bench.manager.tick()
    assert bench.live() == ["m:1", "m:2"]
    bench.loads.run_all()
    bench.map.held_versions["m"] = frozenset()
    bench.settle()
    assert bench.live() == ["m:1", "m:3"]


def test_what_the_map_refuses_is_unloaded_and_tried_again() -> None:
    bench = Bench()
    bench.map.refusal = ModelFailed("two signatures of one name")
    bench.want(1)
    bench.settle()
    assert (bench.loaders[1].loads, bench.loaders[1].unloads) == (1, 1)
    assert bench.error(1) == "model_failed"
    bench.map.refusal = None
    bench.clock.now += 2
    bench.settle()
    assert bench.live() == ["m:1"]


def test_a_loader_that_raises_what_it_likes_becomes_a_model_failure() -> None:
    bench = Bench()

    class Exits(FakeLoader):
        def load(self) -> object:  # type: ignore[override]
            raise SystemExit(3)

    bench.loaders = {1: Exits(ServableId("m", 1))}
    bench.want(1)
    bench.settle()
    assert bench.error(1) == ModelFailed.code


def test_a_set_that_makes_no_sense_is_refused_whole() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    other = AspiredVersion(ServableId("other", 2), FakeLoader(ServableId("other", 2)))
    with pytest.raises(InvalidInput, match="other:2"):
        bench.manager.set_aspired_versions("m", [other])
    with pytest.raises(InvalidInput, match="m:1"):
        bench.want(1, 1)
    bench.settle()
    assert bench.live() == ["m:1"]


def test_a_release_that_nobody_waits_for_is_harmless() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    bench.manager.released("m", 1)
    bench.manager.released("other", 9)
    assert bench.state(1) is State.AVAILABLE


def test_ended_versions_are_forgotten_in_the_end() -> None:
    bench = Bench()
    for number in range(1, 41):
        bench.want(number)
        bench.settle()
    states = bench.monitor.states("m")
    assert len(states) <= 17
    assert states[0].id.version == 40


def test_origins_tell_where_versions_came_from() -> None:
    bench = Bench()
    bench.want(1, origin="here")
    assert bench.manager.origins() == {ServableId("m", 1): "here"}
    assert bench.manager.aspired_names() == {"m"}
    bench.want()
    assert bench.manager.aspired_names() == frozenset()


class Refusing(FakeLoader):
    """Raises what it is given."""

    def __init__(self, id: ServableId, error: TidegateError) -> None:
        super().__init__(id)
        self.error = error

    def load(self) -> LoadedVersion:
        raise self.error


def test_a_refused_load_is_logged_in_a_line_and_a_models_exception_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    failed = ModelFailed("m:2 cannot be loaded: inside the model")
    failed.__cause__ = ZeroDivisionError("inside the model")
    bench.loaders[1] = Refusing(ServableId("m", 1), InvalidInput("m:1 has no class"))
    bench.loaders[2] = Refusing(ServableId("m", 2), failed)
    bench.want(1, 2)
    bench.settle()
    said = {record.getMessage()[:3]: record.getMessage() for record in caplog.records}
    assert "Traceback" not in said["m:1"]
    assert "Traceback" in said["m:2"]


def test_each_servable_may_follow_a_policy_of_its_own() -> None:
    bench = Bench(ManagerOptions(policies={"m": resource_preserving}))
    others = {n: FakeLoader(ServableId("other", n)) for n in (1, 2)}

    def want_other(number: int) -> None:
        bench.manager.set_aspired_versions("other", [AspiredVersion(others[number].id, others[number])])

    bench.want(1)
    want_other(1)
    bench.settle()
    bench.want(2)
    want_other(2)
    bench.manager.tick()
    assert bench.live() == ["other:1"], "m lets go first, the other keeps something that answers"
    bench.settle()
    assert bench.live() == ["m:2", "other:2"]


def test_policies_change_while_it_runs() -> None:
    bench = Bench()
    bench.want(1)
    bench.settle()
    bench.manager.reconfigure(ManagerOptions(policy=resource_preserving, retry=STEADY, clock=bench.clock))
    bench.want(2)
    bench.manager.tick()
    assert bench.live() == []


def test_the_hook_is_called_before_each_load_and_may_refuse_it() -> None:
    seen: list[str] = []

    def hook(id: ServableId) -> None:
        seen.append(str(id))
        if id.version == 2:
            raise InvalidInput("not this one")

    bench = Bench(ManagerOptions(pre_load=hook))
    bench.want(1, 2)
    bench.settle()
    assert sorted(seen) == ["m:1", "m:2"]
    assert (bench.live(), bench.loaders[2].loads, bench.error(2)) == (["m:1"], 0, InvalidInput.code)


def test_a_tick_looks_only_at_what_changed() -> None:
    looked: list[str] = []

    def policy(versions: Sequence[VersionSnapshot]) -> Action | None:
        looked.append(versions[0].id.name)
        return availability_preserving(versions)

    bench = Bench(ManagerOptions(policy=policy))
    for number in range(50):
        loader = FakeLoader(ServableId(f"m{number}", 1))
        bench.manager.set_aspired_versions(loader.id.name, [AspiredVersion(loader.id, loader)])
    bench.settle()
    looked.clear()
    bench.want(1, name="m7", origin="again")
    bench.settle()
    assert set(looked) == {"m7"}
