"""TensorFlow Serving's own sixteen cases for its two version policies, as data."""

from __future__ import annotations

import re

import pytest

from tidegate_serving.contract.servable import ServableId
from tidegate_serving.lifecycle.harness import Stage
from tidegate_serving.lifecycle.policy import (
    Action,
    Verb,
    VersionSnapshot,
    availability_preserving,
    resource_preserving,
)

STAGES = {
    "U": Stage.UNLOADING,
    "E": Stage.ERROR,
    "R": Stage.READY,
    "N": Stage.NEW,
    "D": Stage.DISABLED,
    "L": Stage.LOADING,
    "UR": Stage.UNLOAD_REQUESTED,
}
POLICIES = {"avail": availability_preserving, "resource": resource_preserving}
TABLE = """
P1 avail | 1U- 2E- 3R+ 4N+ 5N+ | load 5
P2 avail | 1U- 2E- 3R- 4R+ 5N+ | unload 3
P3 avail | 1D- 2R- 3E- | unload 2
P4 avail | 1R+ 2E+ 3L+ 4U- 5D- | none
P5 avail | 1R- 2L+ | none
P6 avail | 1R- 2E+ | none
P7 avail | 1R- 2L+ 3R+ | unload 1
P8 avail | 1R- 2E+ 3R+ | unload 1
P9 avail | 2R- 1R- 3E+ 4L+ | unload 1
P10 resource | 1U- 2R+ 3R- 4N+ 5R- | unload 3
P11 resource | 1R+ 2L+ 3N+ 4D- 5N+ | load 5
P12 resource | 1R+ 2E+ 3L+ 4U- 5D- | none
P13 resource | 1UR- 2N+ | none
P14 resource | 1E- 2N+ | load 2
P15 resource | 1E- 2UR- 3N+ | none
P16 resource | 1E- 2D- 3N+ | load 3
"""
OWN_TABLE = """
empty avail | | none
empty resource | | none
all-unwanted avail | 1R- 2R- | unload 1
held avail | 1R+ 2R-h 3L+ | none
held-and-other avail | 1R+ 2R-h 3R- 4L+ | unload 3
held-but-nothing-wanted avail | 1R-h | unload 1
held-is-no-matter resource | 1R-h 2N+ | unload 1
"""


def rows(table: str) -> list[tuple[str, str, str, str]]:
    found = []
    for line in table.strip().splitlines():
        left, versions, expected = (part.strip() for part in line.split("|"))
        name, policy = left.split()
        found.append((name, policy, versions, expected))
    return found


def snapshot(text: str) -> VersionSnapshot:
    match = re.fullmatch(r"(\d+)([A-Z]+)([+-])(h?)", text)
    assert match is not None, text
    return VersionSnapshot(ServableId("m", int(match[1])), STAGES[match[2]], match[3] == "+", held=bool(match[4]))


@pytest.mark.parametrize(("name", "policy", "versions", "expected"), [*rows(TABLE), *rows(OWN_TABLE)])
def test_table(name: str, policy: str, versions: str, expected: str) -> None:
    action = POLICIES[policy]([snapshot(text) for text in versions.split()])
    if expected == "none":
        assert action is None, name
    else:
        verb, number = expected.split()
        assert action == Action(Verb[verb.upper()], ServableId("m", int(number))), name


def test_table_is_whole() -> None:
    assert [row[0] for row in rows(TABLE)] == [f"P{number}" for number in range(1, 17)]
