"""A name that cannot be used is refused with what is wrong with it."""

from __future__ import annotations

import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import ServableId

TAKE = ": take letters, digits, '.', '_' and '-', a letter or digit first, at most 128"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (".x", "it begins with '.'"),
        ("-x", "it begins with '-'"),
        ("_", "it begins with '_'"),
        (".a b", "it has ' '"),
        ("x/../y", "it has '/'"),
        ("größe", "it has 'ö'"),
        ("x\n", "it has '\\n'"),
        ("\ud800", "it has '\\\\ud800'"),
        ("", "it is empty"),
        ("a" * 129, "it has 129 characters"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_with_its_fault(name: str, fault: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ServableId(name, 1)
    assert caught.value.message.endswith(f"cannot be used, {fault}{TAKE}")


@pytest.mark.parametrize("name", ["x", "7", "a.b_c-d.", "a" * 128])
def test_a_name_of_these_characters_is_taken(name: str) -> None:
    assert ServableId(name, 1).name == name
