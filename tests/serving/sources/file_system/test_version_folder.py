"""Folders whose names are numbers are versions, whatever else lies beside them."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_serving.contract.servable import MAX_VERSION
from tidegate_serving.sources.file_system.version_folder import VersionFolder

NUMBERS = st.integers(0, MAX_VERSION + 10).flatmap(
    lambda number: st.integers(0, 3).map(lambda zeros: "0" * zeros + str(number))
)
NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..")
)


@given(st.lists(NUMBERS | NAMES | st.text("0123456789٣²", min_size=1, max_size=4), unique=True, max_size=8))
def test_any_names_are_versions_or_left_out(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        for name in names:
            Path(root, name).mkdir()
        found = VersionFolder(Path(root)).versions()
    plain = {name for name in names if name.isascii() and name.isdigit() and int(name) <= MAX_VERSION}
    assert found.keys() == {int(name) for name in plain}
    for number, path in found.items():
        assert path.name == min((name for name in plain if int(name) == number), key=len)


def test_two_folders_of_one_number_are_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("1", "01"):
        (tmp_path / name).mkdir()
    folder = VersionFolder(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert folder.versions() == folder.versions() == {1: tmp_path / "1"}
    assert [record.message.rpartition("/")[2] for record in caplog.records] == [
        "1 and 01 are the same version: the first is served, remove the other"
    ]


def test_files_are_no_versions_and_links_are_whatever_lies_behind(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("")
    (tmp_path / "2").symlink_to(tmp_path / "away")
    assert VersionFolder(tmp_path).versions() == {2: tmp_path / "2"}
