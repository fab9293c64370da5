"""Verdicts signed by a key that Vault keeps: over HTTP, against a server that speaks Transit's interface."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.neighbours.vault_server import TOKEN, Vault, vault_server

from tidegate_serving.admission import Outcome, VaultKey, Verdict, key_id, open_verdict, write_verdict
from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused, TidegateError, Unavailable
from tidegate_serving.contract.servable import ServableId


@pytest.fixture
def vault() -> Iterator[Vault]:
    with vault_server() as server:
        yield server


@pytest.fixture
def key(vault: Vault) -> VaultKey:
    return VaultKey(vault.address, "validator", TOKEN)


def test_a_verdict_is_signed_by_the_newest_version_of_the_key(vault: Vault, key: VaultKey, tmp_path: Path) -> None:
    now = datetime.now(UTC).isoformat()
    verdict = Verdict(
        id=ServableId("m", 1),
        manifest_digest="0" * 64,
        outcome=Outcome.PASS,
        allowed=True,
        sentence="made for a test",
        gates=(),
        first=True,
        baseline=None,
        data_digest="0" * 64,
        config_digest="0" * 64,
        tool_version="test",
        issued_at=now,
        expires_at=now,
    )
    for _ in range(2):
        write_verdict(verdict, tmp_path / "v.json", key)
        envelope = open_verdict(tmp_path / "v.json")
        newest = vault.keys["transit/validator"][-1].public_key()
        assert envelope.signed_by(key_id(newest), newest)
        vault.rotate()


def test_mount_and_namespace_are_asked_for(vault: Vault, key: VaultKey) -> None:
    vault.rotate("team/transit/validator")
    other = replace(key, mount="team/transit", namespace="ml")
    assert other.sign(b"x")
    assert set(vault.namespaces) == {"ml"}
    assert key_id(other.public_key()) != key_id(key.public_key())


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"token": "hvs.stolen"}, PermissionRefused, "updates transit/sign/validator"),
        ({"key": "nobody"}, NotFound, "key nobody in Vault at .* is missing at mount 'transit'"),
        ({"address": "http://127.0.0.1:1"}, Unavailable, "127.0.0.1:1 does not answer"),
    ],
)
def test_what_is_wrong_is_told_with_its_cure_and_without_the_token(
    key: VaultKey, wrong: dict[str, str], error: type[TidegateError], words: str
) -> None:
    broken = replace(key, **wrong)  # type: ignore[arg-type]
    with pytest.raises(error, match=words) as told:
        broken.sign(b"x")
    assert "hvs." not in str(told.value) + repr(broken) + str(broken)


def test_a_sealed_vault_may_be_asked_again_later(vault: Vault, key: VaultKey) -> None:
    vault.sealed = True
    with pytest.raises(Unavailable, match="status 503"):
        key.sign(b"x")


def test_a_signature_of_another_key_is_not_taken(vault: Vault, key: VaultKey) -> None:
    vault.forged = True
    with pytest.raises(Unavailable, match="not its signature"):
        key.sign(b"x")


def test_a_key_of_another_type_is_named(vault: Vault, key: VaultKey) -> None:
    vault.kind = "aes256-gcm96"
    with pytest.raises(InvalidInput, match="of type 'aes256-gcm96': make one of type ed25519"):
        key.sign(b"x")


@pytest.mark.parametrize(("wrong", "words"), [({"address": "vault:8200"}, "write it like"), ({"token": ""}, "token")])
def test_what_cannot_be_is_said_before_vault_is_asked(key: VaultKey, wrong: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        replace(key, **wrong)  # type: ignore[arg-type]
