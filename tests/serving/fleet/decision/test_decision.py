"""What the leading controller decides, of nodes and models that are made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tidegate_serving.contract.desired_state import STABLE, DesiredState, VersionReference
from tidegate_serving.contract.errors import NotAdmitted, PermissionRefused, TidegateError, Unavailable
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.control.overrides import Note, Overrides, Pin
from tidegate_serving.fleet.decision.decision import UNROUTED_SECONDS, WANTED_SECONDS, Decision, Memory, decide
from tidegate_serving.fleet.decision.rollout import Seen, told, version_states
from tidegate_serving.fleet.decision.scaling import CALM_SECONDS
from tidegate_serving.fleet.state.model import Copies, FleetModel
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.fleet.state.placement import Placement
from tidegate_serving.fleet.state.routes import Routes
from tidegate_serving.fleet.state.view import FleetView, Usage

NOW = 1000.0


def reference(number: int) -> VersionReference:
    return VersionReference(number, Path(f"/m/{number}"), f"digest {number}")


def desired(*numbers: int, stable: int | None = None, revision: int = 1) -> DesiredState:
    labels = {} if stable is None else {STABLE: stable}
    return DesiredState("m", tuple(map(reference, numbers)), labels, revision=revision)


def serving(*numbers: int, stable: int | None = None) -> FleetModel:
    """A model that serves what is desired of it, of ten bytes."""
    return FleetModel(desired(*numbers, stable=stable), file_bytes=10).advanced()


def seen(state: DesiredState, available: Iterable[int] = (), loading: Iterable[int] = ()) -> Seen:
    states = {ServableId("m", number): State.AVAILABLE for number in available}
    states |= {ServableId("m", number): State.LOADING for number in loading}
    changes = {version: StateChange(version, found, at_us=1) for version, found in states.items()}
    return Seen({"m": state} if state.versions else {}, changes)


def view(
    model: FleetModel,
    nodes: Iterable[str] = "ab",
    placed: Mapping[str, tuple[str, ...]] | None = None,
    **more: object,
) -> FleetView:
    registered = {name: Node(name, f"{name}:1", f"{name}:2", f"{name}:3", 15) for name in nodes}
    base = FleetView(1, nodes=registered, models={model.name: model}, placement=Placement(placed or {}))
    return replace(base, **more)  # type: ignore[arg-type]


def decided(
    fleet: FleetView, nodes: Mapping[str, Seen], unrouted: Mapping[tuple[str, str], float] | None = None
) -> Decision:
    return decide(fleet, nodes, (), Memory(unrouted or {}), NOW)


def test_routes_have_the_nodes_without_models_too_so_that_those_that_are_missing_are_lost() -> None:
    decision = decided(view(serving(1, stable=1), "abc", placed={"m": ("a",)}), {"a": seen(desired(1), [1])})
    assert decision.routes.models["m"] == ("a",)
    assert sorted(decision.routes.nodes) == ["a", "b", "c"]


def test_a_new_version_takes_the_label_once_every_node_has_it() -> None:
    before = serving(1, stable=1)
    model = replace(before, desired=desired(2, stable=2, revision=2), copies=Copies(2, 2))
    fleet = view(model, placed={"m": ("a", "b")})
    first = decided(fleet, {"a": seen(desired(1), [1]), "b": seen(desired(1), [1])})
    for node in "ab":
        state = first.told[node]["m"]
        assert state.numbers == {1, 2}
        assert state.labels == {STABLE: 1}
    half = decided(fleet, {"a": seen(told(model), [1, 2]), "b": seen(told(model), [1], [2])})
    assert not half.models
    assert half.told["a"]["m"].labels == {STABLE: 1}
    assert half.routes.models["m"] == ("a", "b")
    whole = decided(fleet, {"a": seen(told(model), [1, 2]), "b": seen(told(model), [1, 2])})
    assert whole.models["m"].serving == model.desired
    assert whole.told["a"]["m"] == whole.told["b"]["m"] == model.desired
    assert whole.models["m"].previous == reference(1)


def test_without_labels_a_new_version_gets_no_ordinary_request_before_every_node_has_it() -> None:
    model = replace(serving(1), desired=desired(1, 2, revision=2))
    assert told(model).stable == 1
    assert told(model.advanced()).stable == 2


def test_a_model_stays_routed_and_loaded_until_it_is_available_elsewhere_and_routers_know() -> None:
    model = serving(1)
    fleet = view(model, placed={"m": ("b",)})
    on_a = seen(model.desired, [1])
    coming = decided(fleet, {"a": on_a, "b": seen(model.desired, loading=[1])})
    assert coming.routes.models["m"] == ("a",)
    assert coming.told["a"]["m"].numbers == {1}
    there = {"a": on_a, "b": seen(model.desired, [1])}
    withdrawn = decided(fleet, there)
    assert withdrawn.routes.models["m"] == ("b",)
    assert withdrawn.told["a"]["m"].numbers == {1}
    assert withdrawn.memory.unrouted == {("m", "a"): NOW}
    soon = decided(fleet, there, {("m", "a"): NOW - UNROUTED_SECONDS / 2})
    assert soon.told["a"]["m"].numbers == {1}
    late = decided(fleet, there, {("m", "a"): NOW - UNROUTED_SECONDS})
    assert late.told["a"]["m"].numbers == set()


def test_routes_say_how_each_version_stands_and_which_model_is_cold() -> None:
    model = serving(1)
    loading = decided(view(model), {"a": seen(model.desired, loading=[1]), "b": Seen()})
    assert loading.routes.states == {"m": ((1, State.LOADING.value, 0, ""),)}
    there = decided(view(model), {"a": seen(model.desired, [1]), "b": Seen()})
    assert there.routes.states == {"m": ((1, State.AVAILABLE.value, 0, ""),)}
    optional = replace(model, copies=Copies(0, 1))
    cold = decided(view(optional, ""), {})
    ((version, state, code, text),) = cold.routes.states["m"]
    assert (version, state, code) == (1, State.END.value, Unavailable.grpc_code)
    assert text == "it is on no node: the first request for it has it loaded"
    assert Routes.from_bytes(cold.routes.to_bytes()) == cold.routes


def test_a_node_loads_nothing_before_what_has_to_leave_is_gone() -> None:
    model, other = serving(1), FleetModel(DesiredState("other"), file_bytes=10)
    fleet = view(model, "a", {"m": ("a",)})
    fleet = replace(fleet, models={"m": model, "other": other})
    unloading = StateChange(ServableId("other", 1), State.UNLOADING)
    busy = Seen(states={unloading.id: unloading})
    assert "m" not in decided(fleet, {"a": busy}).told["a"]
    assert "other" not in decided(fleet, {"a": busy}).gone
    gone = Seen(states={unloading.id: replace(unloading, state=State.END)})
    assert decided(fleet, {"a": gone}).told["a"]["m"] == model.desired


def test_models_that_come_at_once_count_together() -> None:
    model, other = serving(1), FleetModel(DesiredState("other"), file_bytes=10)
    second = replace(model, desired=replace(model.desired, servable="n"), serving=None)
    fleet = replace(view(model, "a"), models={"m": model, "n": second, "other": other})
    fleet = replace(fleet, nodes={"a": replace(fleet.nodes["a"], capacity_bytes=25)})
    unloading = StateChange(ServableId("other", 1), State.UNLOADING)
    assert len(decided(fleet, {"a": Seen(states={unloading.id: unloading})}).told["a"]) == 1
    assert set(decided(fleet, {"a": Seen()}).told["a"]) == {"m", "n"}


def test_a_model_that_fits_nowhere_else_is_served_by_the_node_that_is_to_be_emptied() -> None:
    model = serving(1)
    fleet = view(model, "a", {"m": ("a",)}, drains=frozenset("a"))
    decision = decided(fleet, {"a": seen(model.desired, [1])}, {("m", "a"): 0.0})
    assert decision.routes.models["m"] == ("a",)
    assert decision.told["a"]["m"].numbers == {1}
    assert "copy 1 of m needs 10 bytes" in decision.placement.missing["m"]


def test_a_removed_model_leaves_at_once_and_is_forgotten_once_nobody_holds_it() -> None:
    model = replace(serving(1), desired=DesiredState("m", revision=2))
    held = decided(view(model, placed={"m": ("a",)}), {"a": seen(desired(1), [1]), "b": Seen()})
    assert held.told["a"]["m"].numbers == set()
    assert "m" not in held.routes.models
    assert not held.gone
    assert decided(view(model), {"a": Seen(), "b": Seen()}).gone == {"m"}


def test_a_wish_loads_a_model_and_is_over_once_that_is_available_or_too_long_ago() -> None:
    model = replace(serving(1), copies=Copies(0, 1))
    assert decided(view(model), {"a": Seen(), "b": Seen()}).told == {"a": {}, "b": {}}
    wish = view(model, wanted={"m": NOW})
    coming = decided(wish, {"a": Seen(), "b": Seen()})
    assert coming.told["a"]["m"] == model.desired
    assert coming.routes.models["m"] == ()
    assert not coming.served
    assert decided(wish, {"a": seen(model.desired, [1]), "b": Seen()}).served == {"m"}
    nodes = {"a": Seen(), "b": Seen()}
    later = decide(wish, nodes, (), coming.memory, NOW + WANTED_SECONDS - 1)
    assert not later.served
    assert decide(wish, nodes, (), later.memory, NOW + WANTED_SECONDS + 1).served == {"m"}


def test_a_wish_counts_as_long_whatever_the_clock_of_the_router_that_wrote_it_says() -> None:
    model = replace(serving(1), copies=Copies(0, 1))
    for late in (-10 * WANTED_SECONDS, 10 * WANTED_SECONDS):
        wish = view(model, wanted={"m": NOW + late})
        coming = decided(wish, {"a": Seen(), "b": Seen()})
        assert coming.told["a"]["m"] == model.desired
        assert not coming.served
        over = decide(wish, {"a": Seen(), "b": Seen()}, (), coming.memory, NOW + WANTED_SECONDS + 1)
        assert over.served == {"m"}


def test_a_node_that_nothing_is_heard_of_gets_nothing() -> None:
    decision = decide(view(serving(1)), {"b": Seen()}, {"a"}, Memory(), NOW)
    assert decision.placement.nodes == {"m": ("b",)}


def test_an_error_counts_from_when_the_node_was_told() -> None:
    model = FleetModel(desired(1, revision=2))
    refused, on_a = Seen(refused={"m": NotAdmitted("no verdict")}, heard={"m": 2}), Placement({"m": ("a",)})
    (told_so,) = version_states(model, on_a, {"a": refused})
    assert (told_so.state, told_so.error_code) == (State.END, "not_admitted")
    assert told_so.error_message == "node a: no verdict"
    (from_before,) = version_states(model, on_a, {"a": replace(refused, heard={"m": 1})})
    assert (from_before.state, from_before.error_code) == (State.LOADING, "")


def test_a_version_beside_which_its_node_has_no_room_fails_and_what_serves_stays_and_can_be_gone_back_from() -> None:
    before = replace(serving(1, stable=1), desired=desired(2, stable=2), file_bytes=10).advanced()
    pushed = replace(before, desired=desired(2, 3, stable=2, revision=5), file_bytes=20)
    placed = Placement({"m": ("a",)}, sizes={"m": 10})
    fleet, there = replace(view(pushed, "a"), placement=placed), {"a": seen(before.desired, [2])}
    decision = decided(fleet, there)
    assert decision.placement.sizes == {"m": 10}
    assert decision.told["a"]["m"].numbers == {2}
    assert decision.routes.models["m"] == ("a",)
    states = {one.id.version: one for one in version_states(pushed, decision.placement, there)}
    assert states[2].state is State.AVAILABLE
    assert states[3].error_code == "resource_exhausted"
    assert "m needs 20 bytes on each of its nodes, of which it has 10" in states[3].error_message
    back = replace(pushed, desired=pushed.desired.adding(reference(1)).promoting(1))
    assert decided(replace(fleet, models={"m": back}), there).told["a"]["m"].numbers == {1, 2}
    roomy = replace(fleet, nodes={"a": replace(fleet.nodes["a"], capacity_bytes=20)})
    grown = decided(roomy, there)
    assert (grown.placement.sizes, grown.placement.missing) == ({"m": 20}, {})
    assert grown.told["a"]["m"].numbers == {2, 3}


def test_copies_follow_what_all_routers_forward() -> None:
    model = replace(serving(1), copies=Copies(1, 2), rate_per_copy=10.0)
    quiet = view(model, placed={"m": ("a",)})
    there = {"a": seen(model.desired, [1]), "b": Seen()}
    assert decided(quiet, there).placement.nodes["m"] == ("a",)
    busy = replace(quiet, usage=({"m": Usage(6.0, NOW)}, {"m": Usage(5.0, NOW)}))
    assert decided(busy, there).placement.nodes["m"] == ("a", "b")
    both = {node: seen(model.desired, [1]) for node in "ab"}
    again = replace(quiet, placement=Placement({"m": ("a", "b")}))
    calm = decided(again, both)
    assert (calm.placement.nodes["m"], calm.memory.calm) == (("a", "b"), {"m": NOW})
    later = decide(again, both, (), calm.memory, NOW + CALM_SECONDS)
    assert len(later.placement.nodes["m"]) == 1


def test_what_was_used_last_is_what_any_router_says() -> None:
    models = {
        name: replace(
            serving(1), desired=replace(desired(1), servable=name), serving=None, copies=Copies(0, 1), measured_bytes=15
        )
        for name in ("m", "n", "o")
    }
    fleet = replace(view(models["m"], placed={"m": ("a",), "n": ("b",)}), models=models, wanted={"o": NOW})
    used = ({"m": Usage(1.0, NOW - 1)}, {"n": Usage(1.0, NOW - 9)})
    placed = decided(replace(fleet, usage=used), {"a": Seen(), "b": Seen()}).placement
    assert placed.evicted == {("n", "b")}


def test_a_pinned_model_of_which_nothing_else_is_desired_is_routed() -> None:
    pin = Overrides(pin=Pin(reference(1), Note("anna", "it is late", 1)))
    model = replace(serving(1), desired=DesiredState("m", revision=2), overrides=pin).advanced()
    decision = decided(view(model, placed={"m": ("a",)}), {"a": seen(model.wanted, [1]), "b": Seen()})
    assert decision.routes.models["m"] == ("a",)


def test_a_model_that_cannot_be_read_keeps_its_places_and_routes() -> None:
    routes = decided(view(serving(1), placed={"m": ("a",)}), {"a": seen(desired(1), [1]), "b": Seen()}).routes
    fleet = replace(view(serving(1), placed={"m": ("a",)}), models={}, unread=frozenset("m"), routes=routes.to_bytes())
    decision = decided(fleet, {"a": seen(desired(1), [1]), "b": Seen()})
    assert decision.placement.nodes["m"] == ("a",)
    assert decision.routes == routes
    assert "m" not in decision.told["a"]


def refusing(error: TidegateError, revision: int = 1) -> Seen:
    return Seen(refused={"m": error}, heard={"m": revision})


def test_a_node_that_refuses_a_model_for_a_reason_of_its_own_leaves_it_to_another() -> None:
    fresh, lacks = FleetModel(desired(1), file_bytes=10), refusing(PermissionRefused("not mounted here"))
    on_a = view(fresh, placed={"m": ("a",)})
    assert decided(on_a, {"a": lacks, "b": Seen()}).placement.nodes["m"] == ("b",)
    assert decided(on_a, {"a": refusing(NotAdmitted("no verdict")), "b": Seen()}).placement.nodes["m"] == ("a",)
    assert decided(on_a, {"a": refusing(PermissionRefused("old"), 0), "b": Seen()}).placement.nodes["m"] == ("a",)
    serves = view(serving(1), placed={"m": ("a",)})
    assert decided(serves, {"a": refusing(NotAdmitted("torn")), "b": Seen()}).placement.nodes["m"] == ("b",)
    assert decided(on_a, {"a": lacks, "b": lacks}).placement.nodes["m"] in {("a",), ("b",)}
    five = view(fresh, "abcde", {"m": ("d",)})
    assert decided(five, {**dict.fromkeys("abcd", lacks), "e": Seen()}).placement.nodes["m"] == ("d",)


def test_what_nodes_served_was_admitted_and_a_version_that_only_was_pushed_was_not() -> None:
    served = replace(serving(1), desired=desired(2, revision=2)).advanced()
    model = replace(served, desired=desired(2, 3, revision=3))
    assert decided(view(model), {}).admitted == {"digest 1", "digest 2"}
