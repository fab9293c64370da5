"""The access file: what it says, and what is refused in it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unauthenticated, Unsupported
from tidegate_serving.control.access.access_file import Access, new_token, read_access, with_line
from tidegate_serving.control.access.grants import Grant, Role

HEAD = 'format = "tidegate.access/1"\n'
HASH = "a" * 64


def test_a_token_and_its_line_belong_together_and_the_line_does_not_give_it_away(tmp_path: Path) -> None:
    token, line = new_token("airflow", Role.RELEASE, ("flights*", "prices"))
    other, second = new_token("anna", Role.OPERATE)
    path = tmp_path / "access.toml"
    path.write_text(with_line(with_line("", line), second))
    access = read_access(path)
    assert access.by_token(token) == Grant("token", "airflow", Role.RELEASE, ("flights*", "prices"))
    assert access.by_token(other).sees_all
    assert token not in path.read_text()
    assert token != new_token("airflow", Role.RELEASE)[0]


def test_an_unknown_or_expired_token_is_refused_without_being_repeated() -> None:
    access = Access("tidegate.access/1")
    with pytest.raises(Unauthenticated) as refused:
        access.by_token("tg_secret")
    assert "tg_secret" not in refused.value.message
    token, line = new_token("old", Role.LOOK, expires=times.now() - timedelta(seconds=1))
    with pytest.raises(Unauthenticated, match=r"token 'old' expired at .*the engine's clock says"):
        Access("tidegate.access/1", (line,)).by_token(token)
    token, line = new_token("new", Role.LOOK, expires=times.now() + timedelta(hours=1))
    assert Access("tidegate.access/1", (line,)).by_token(token).name == "new"


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("", Unsupported, "no tidegate.access document"),
        ('format = "tidegate.access/2"', Unsupported, "tidegate.access/1"),
        (f'{HEAD}[[tokn]]\nname = "a"', InvalidInput, "did you mean token"),
        (f'{HEAD}[[token]]\nname = "a"\nsha256 = "{HASH}"\nrole = "admin"', InvalidInput, "look, release, operate"),
        (f'{HEAD}[[token]]\nname = "a"\nsha256 = "tg_abc"\nrole = "look"', InvalidInput, "no SHA-256 in hex"),
        (f'{HEAD}[[token]]\nname = "a\\nb"\nsha256 = "{HASH}"\nrole = "look"', InvalidInput, "not usable"),
        (f'{HEAD}[[token]]\nname = "a"\nsha256 = "{HASH}"\nrole = "look"\nmodels = []', InvalidInput, "patterns"),
        (f'{HEAD}[[token]]\nname = "a"\nsha256 = "{HASH}"\nrole = "look"\nexpires = "soon"', InvalidInput, "no date"),
        (
            f'{HEAD}[[token]]\nname = "a"\nsha256 = "{HASH}"\nrole = "look"\n'
            f'[[token]]\nname = "b"\nsha256 = "{HASH}"\nrole = "operate"',
            InvalidInput,
            "is there twice",
        ),
        (f'{HEAD}[[certificate]]\nrole = "look"', InvalidInput, "lacks the key 'subject'"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_file(
    tmp_path: Path, text: str, kind: type[TidegateError], says: str
) -> None:
    path = tmp_path / "access.toml"
    path.write_text(text)
    with pytest.raises(kind) as refused:
        read_access(path)
    assert says in refused.value.message
    assert str(path) in refused.value.message
