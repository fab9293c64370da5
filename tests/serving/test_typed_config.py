"""Plain values become what a dataclass declares, or an error that names the key, the value and the cure."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.typed_config import NOT_A_KEY, read_config, read_toml


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    name: str
    size: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidInput(f"size is {self.size}: use 1 or more")


@dataclass(frozen=True)
class Outer:
    on: bool = False
    share: float = 0.5
    limit: float | None = None
    path: Path | None = None
    roots: tuple[Path, ...] = ()
    colours: Mapping[str, tuple[Colour, ...]] = field(default_factory=dict)
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    by_name: Mapping[str, Inner] = field(default_factory=dict)
    free: Mapping[str, Any] = field(default_factory=dict)
    origin: str = field(default="", metadata=NOT_A_KEY)


def test_values_of_every_kind_are_read() -> None:
    found = read_config(
        Outer,
        {
            "on": True,
            "share": 1,
            "limit": 2,
            "path": "/p",
            "roots": ["/a"],
            "colours": {"sky": ["blue"]},
            "inner": {"name": "n"},
            "inners": [{"name": "a", "size": 2}],
            "by_name": {"x": {"name": "b"}},
            "free": {"any": [1, "x"]},
        },
        "here",
    )
    assert found == Outer(
        on=True,
        share=1.0,
        limit=2.0,
        path=Path("/p"),
        roots=(Path("/a"),),
        colours={"sky": (Colour.BLUE,)},
        inner=Inner("n"),
        inners=(Inner("a", 2),),
        by_name={"x": Inner("b")},
        free={"any": [1, "x"]},
    )
    assert isinstance(found.share, float)


def test_texts_are_read_only_where_they_are_allowed() -> None:
    texts = {"on": "yes", "share": "0.25", "limit": "", "roots": "/a:/b"}
    assert read_config(Outer, texts, "here", texts=True) == Outer(on=True, share=0.25, roots=(Path("/a"), Path("/b")))
    for key in texts:
        with pytest.raises(InvalidInput, match=f"here: {key} is "):
            read_config(Outer, {key: texts[key]}, "here")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shares": 1}, "here has an unknown key 'shares': did you mean share?"),
        ({"zzz": 1}, "here has an unknown key 'zzz': known are on, share"),
        ({"parents": 1}, "here has an unknown key 'parents': known are on, share"),
        ({"origin": "x"}, "here has an unknown key 'origin': "),
        ({"inner": {}}, "here: inner lacks the key 'name': add it"),
        ({"inner": {"name": "n", "size": 0}}, "here: inner: size is 0: use 1 or more"),
        ({"inners": [{"name": "n"}, {"name": 1}]}, "here: inners number 2: name is 1: use a text in quotes"),
        ({"by_name": {"x": {"nam": "n"}}}, "here: by_name.x has an unknown key 'nam': did you mean name?"),
        ({"colours": {"sky": ["green"]}}, "here: colours.sky is 'green': use red, blue"),
        ({"colours": {"sky": "blue"}}, "here: colours.sky is 'blue': use a list"),
        ({"share": math.nan}, "here: share is nan: use a finite number"),
        ({"share": True}, "here: share is True: use a finite number"),
        ({"free": 3}, "here: free is 3: use a table"),
        ({"path": "a\0b"}, "here: path is 'a\\x00b': take the character 0 out of it"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_cure(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_config(Outer, values, "here")
    assert caught.value.message.startswith(message)


KEYS = st.sampled_from([*Outer.__dataclass_fields__, "other"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.dates(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "size", "x"]), inner),
    max_leaves=5,
)


def attempt(values: dict[str, Any], texts: bool) -> Outer | str:
    """The config, or what our error says; any other error is the test's."""
    try:
        return read_config(Outer, values, "here", texts=texts)
    except InvalidInput as error:
        return error.message


@given(values=st.dictionaries(KEYS, PLAIN, max_size=3), texts=st.booleans())
def test_any_plain_values_are_a_config_or_our_error(values: dict[str, Any], texts: bool) -> None:
    found = attempt(values, texts)
    if isinstance(found, str):
        assert found.startswith("here")
    else:
        assert {type(found.on), type(found.share)} == {bool, float}


def test_a_file_that_is_missing_or_not_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    with pytest.raises(NotFound, match=r"policy .*some\.toml is missing: check the path"):
        read_toml(path, "policy")
    path.write_bytes(b"a = [\xff")
    with pytest.raises(InvalidInput, match=r"policy .*some\.toml is not TOML"):
        read_toml(path, "policy")
    path.write_text("a = 1")
    assert read_toml(path, "policy") == {"a": 1}
