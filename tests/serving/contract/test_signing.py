"""A verdict counts only with a trusted key's signature over its exact bytes."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tidegate_serving.admission.signing import (
    load_private_key,
    load_public_key,
    make_keys,
    read_verdict,
    write_verdict,
)
from tidegate_serving.admission.verdict import Finding, GateResult, Outcome, Verdict
from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, NotAdmitted, NotFound, Tampered
from tidegate_serving.contract.servable import ServableId

FINDING = Finding(
    "skew",
    "distance",
    Outcome.FAIL,
    "off",
    number=0.4,
    interval=(0.3, 0.5),
    cause={"kind": "constant factor", "factor": 1.609},
)
VERDICT = Verdict(
    id=ServableId("flights", 3),
    manifest_digest="ab" * 32,
    outcome=Outcome.FAIL,
    allowed=False,
    sentence="distance is off",
    gates=(GateResult("skew", Outcome.FAIL, "distance is off", (FINDING,), 0.5),),
    first=False,
    baseline="b" * 64,
    data_digest="d" * 64,
    config_digest="c" * 64,
    denied_by=("skew",),
    tool_version="0.1.0",
    issued_at="2013-06-01T00:00:00Z",
    expires_at="2013-07-01T00:00:00Z",
)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "validator.pem", tmp_path / "validator.pub.pem")
    return tmp_path


@pytest.fixture
def envelope(keys: Path) -> Path:
    path = keys / "3.verdict.json"
    write_verdict(VERDICT, path, load_private_key(keys / "validator.pem"))
    return path


def test_reads_back_what_was_signed(keys: Path, envelope: Path) -> None:
    assert read_verdict(envelope, [load_public_key(keys / "validator.pub.pem")]) == VERDICT


@pytest.mark.parametrize("bit", [1, 4, 128])
def test_every_flipped_byte_is_refused_and_named(keys: Path, envelope: Path, bit: int) -> None:
    public = [load_public_key(keys / "validator.pub.pem")]
    good = envelope.read_bytes()
    for index in range(len(good)):
        envelope.write_bytes(good[:index] + bytes([good[index] ^ bit]) + good[index + 1 :])
        with pytest.raises(NotAdmitted, match=r"3\.verdict\.json"):
            read_verdict(envelope, public)


def test_flipped_answer_is_refused(keys: Path, envelope: Path) -> None:
    document = json.loads(envelope.read_text())
    payload = base64.b64decode(document["payload"]).replace(b'"allowed": false', b'"allowed": true ')
    document["payload"] = base64.b64encode(payload).decode()
    envelope.write_text(json.dumps(document))
    with pytest.raises(Tampered, match="changed after it was signed"):
        read_verdict(envelope, [load_public_key(keys / "validator.pub.pem")])


def test_other_keys_are_not_trusted(keys: Path, envelope: Path, tmp_path: Path) -> None:
    make_keys(tmp_path / "other.pem", tmp_path / "other.pub.pem")
    with pytest.raises(NotAdmitted, match="not trusted"):
        read_verdict(envelope, [load_public_key(tmp_path / "other.pub.pem")])
    with pytest.raises(NotAdmitted, match="not trusted"):
        read_verdict(envelope, [])


def test_missing_verdict_is_not_admitted(tmp_path: Path) -> None:
    with pytest.raises(NotAdmitted, match="tidegate validate"):
        read_verdict(tmp_path / "3.verdict.json", [])


def test_keys_are_private_and_never_overwritten(keys: Path) -> None:
    assert (keys / "validator.pem").stat().st_mode & 0o777 == 0o600
    with pytest.raises(AlreadyExists, match="validator"):
        make_keys(keys / "validator.pem", keys / "validator.pub.pem")


def test_key_files_that_are_no_keys(keys: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.pem"):
        load_private_key(keys / "none.pem")
    with pytest.raises(InvalidInput, match="private key"):
        load_private_key(keys / "validator.pub.pem")
    with pytest.raises(InvalidInput, match="public key"):
        load_public_key(keys / "validator.pem")
