"""What a config's text about versions means, and that any other text is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.sources.file_system.version_policy import VersionPolicy, parse_version_policy

TEXTS = st.text() | st.from_regex(r"(latest|specific|all|none):?[-+0-9, _]*", fullmatch=True)


@pytest.mark.parametrize(
    "text", ["", "latest", "latest:0", "latest:x", "specific:", "specific:1,x", "newest:1", "latest:" + "9" * 5000]
)
def test_policies_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"versions is .*: use latest:N, all, specific:1,4, or none"):
        parse_version_policy(text)


@given(TEXTS, st.frozensets(st.integers(0, 30)))
def test_any_text_is_a_policy_or_invalid(text: str, present: frozenset[int]) -> None:
    try:
        policy = parse_version_policy(text)
    except InvalidInput:
        return
    chosen = policy.choose(present, lambda number: number, lambda number: number % 3 > 0)
    assert chosen == sorted(set(chosen), reverse=True)
    assert present.issuperset(chosen)
    assert policy.specific is None or set(chosen) == policy.specific & present


@given(st.integers(1, 4), st.frozensets(st.integers(0, 30)), st.frozensets(st.integers(0, 30)))
def test_what_cannot_be_used_displaces_nothing(latest: int, present: frozenset[int], broken: frozenset[int]) -> None:
    chosen = VersionPolicy(latest).choose(present, lambda number: number, lambda number: number not in broken)
    assert [number for number in chosen if number not in broken] == sorted(present - broken, reverse=True)[:latest]
