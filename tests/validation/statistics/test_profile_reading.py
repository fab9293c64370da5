"""A profile that was damaged is refused by an error of ours that names the file, whatever the damage."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.validation import world

from tidegate_serving.contract.errors import TidegateError
from tidegate_validation.statistics import build_profile, read_profile

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    features = ["weight", "depot"]
    build_profile(world.parcels(300, seed=1), features=features, label=world.LABEL, event_time=None, directory=folder)
    return folder


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON document, lists by their first elements."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


def changed(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    made = copy.deepcopy(document)
    inside = made
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return made


def refusal(path: Path, content: bytes) -> str | None:
    """What reading the profile says with other content in one of its files; None where it can be read."""
    whole = path.read_bytes()
    try:
        path.write_bytes(content)
        read_profile(path.parent)
    except TidegateError as error:
        return str(error)
    finally:
        path.write_bytes(whole)
    return None


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_profile_is_read_or_refused_by_name(directory: Path, data: st.DataObject) -> None:
    path = directory / "profile.json"
    document = json.loads(path.read_bytes())
    damaged = changed(document, data.draw(st.sampled_from(places(document))), data.draw(JSON))
    message = refusal(path, json.dumps(damaged).encode())
    assert message is None or str(path) in message


@given(st.binary(max_size=200))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_counts_that_are_no_parquet_are_refused_by_name(directory: Path, content: bytes) -> None:
    path = directory / "counts.parquet"
    assert str(path) in str(refusal(path, content))
