"""Tokens for the control port: the access file stays its owner's, and a token is granted only where it was written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate_operators.steps.keys import new_key, rotate_key
from tidegate_operators.steps.tokens import make_token
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.control.access.grants import Role


def test_the_access_file_stays_its_owners(tmp_path: Path) -> None:
    access = tmp_path / "access.toml"
    make_token(name="first", role=Role.LOOK, access_file=access)
    owner, group = (65534, 65534) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(access, owner, group)
    access.chmod(0o600)
    make_token(name="second", role=Role.LOOK, access_file=access)
    found = access.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (owner, group, 0o600)


def test_a_token_is_granted_and_written_or_neither(tmp_path: Path) -> None:
    access, in_the_way = tmp_path / "access.toml", tmp_path / "file"
    make_token(name="first", role=Role.LOOK, access_file=access)
    before = access.read_text()
    in_the_way.write_text("")
    with pytest.raises(OSError, match="file"):
        make_token(name="second", role=Role.LOOK, access_file=access, token_file=in_the_way / "second.token")
    assert access.read_text() == before
    access.write_text("no list of tokens")
    with pytest.raises(Exception, match=r"access\.toml"):
        make_token(name="third", role=Role.LOOK, access_file=access, token_file=tmp_path / "third.token")
    assert not (tmp_path / "third.token").exists()


@pytest.mark.parametrize("days", [float("inf"), float("nan"), 1e12, 36501.0])
def test_days_that_no_calendar_holds_are_named(tmp_path: Path, days: float) -> None:
    for make in (
        lambda: make_token(name="a", role=Role.LOOK, days=days),
        lambda: new_key(tmp_path / "keys", name="a", days=days),
        lambda: rotate_key(tmp_path / "keys", name="a", overlap_days=days),
    ):
        with pytest.raises(InvalidInput, match="at most 36500"):
            make()
