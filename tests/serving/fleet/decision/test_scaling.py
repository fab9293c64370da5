"""How many copies of a model there are to be under load."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate_serving.fleet.decision.scaling import CALM_SECONDS, scaled
from tidegate_serving.fleet.state.model import Copies

COPIES = st.tuples(st.integers(0, 5), st.integers(1, 9)).map(lambda pair: Copies(min(pair), max(pair)))


@given(COPIES, st.floats(0, 100), st.integers(0, 12), st.floats(0, 1e6), st.none() | st.floats(0, 1000))
def test_copies_stay_within_their_bounds_and_go_one_by_one(
    copies: Copies, rate_per_copy: float, present: int, rate: float, calm_since: float | None
) -> None:
    count, since = scaled(copies, rate_per_copy, present, rate, calm_since, 1000.0)
    assert copies.least <= count <= copies.most
    if rate_per_copy:
        assert count >= min(present, copies.most) - 1
    if since is not None:
        assert count in (min(present, copies.most), min(present, copies.most) - 1)


def test_copies_come_at_once_with_the_load_and_go_slowly_after_it() -> None:
    copies = Copies(1, 4)
    assert scaled(copies, 100.0, 1, 250.0, None, 0.0) == (3, None)
    assert scaled(copies, 100.0, 3, 1e9, None, 0.0) == (4, None)
    assert scaled(copies, 100.0, 3, 250.0, 7.0, 8.0) == (3, None)
    assert scaled(copies, 100.0, 3, 50.0, None, 0.0) == (3, 0.0)
    assert scaled(copies, 100.0, 3, 50.0, 0.0, CALM_SECONDS - 1) == (3, 0.0)
    assert scaled(copies, 100.0, 3, 50.0, 0.0, CALM_SECONDS) == (2, CALM_SECONDS)
    assert scaled(copies, 100.0, 2, 50.0, CALM_SECONDS, CALM_SECONDS + 1) == (2, CALM_SECONDS)


def test_a_model_on_demand_is_on_no_node_until_it_is_asked_for_and_then_stays() -> None:
    assert scaled(Copies(0, 1), 0.0, 0, 0.0, None, 0.0) == (0, None)
    assert scaled(Copies(0, 1), 0.0, 1, 0.0, None, 0.0) == (1, None)


def test_without_a_rate_there_are_as_many_as_there_must_be() -> None:
    assert scaled(Copies(2, 5), 0.0, 4, 1e9, None, 0.0) == (2, None)
