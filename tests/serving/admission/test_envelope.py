"""A verdict is an in-toto statement in a DSSE envelope; only a trusted key's signature over it makes it count."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource
from tests.support.file_limit import no_file_beyond

from tidegate_serving.admission import (
    Finding,
    GateResult,
    Outcome,
    Override,
    Verdict,
    load_private_key,
    load_public_key,
    make_keys,
    open_override,
    open_verdict,
    read_trust,
    trusted_verdict,
    verdict_schema,
    write_override,
    write_verdict,
)
from tidegate_serving.contract.errors import (
    AlreadyExists,
    InvalidInput,
    NotAdmitted,
    NotFound,
    ResourceExhausted,
    Tampered,
)
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


def trusted(envelope: Path, *public: Path) -> Verdict:
    return trusted_verdict(envelope, read_trust(public)).verdict


def test_reads_back_what_was_signed(keys: Path, envelope: Path) -> None:
    assert trusted(envelope, keys / "validator.pub.pem") == VERDICT


@pytest.mark.parametrize("bit", [1, 4, 128])
def test_every_flipped_byte_is_refused_and_named(keys: Path, envelope: Path, bit: int) -> None:
    ring = read_trust([keys / "validator.pub.pem"])
    good = envelope.read_bytes()
    for index in range(len(good)):
        envelope.write_bytes(good[:index] + bytes([good[index] ^ bit]) + good[index + 1 :])
        with pytest.raises(NotAdmitted, match=r"3\.verdict\.json"):
            trusted_verdict(envelope, ring)


def test_flipped_answer_is_refused(keys: Path, envelope: Path) -> None:
    document = json.loads(envelope.read_text())
    payload = base64.b64decode(document["payload"]).replace(b'"allowed": false', b'"allowed": true ')
    document["payload"] = base64.b64encode(payload).decode()
    envelope.write_text(json.dumps(document))
    with pytest.raises(Tampered, match="changed after it was signed"):
        trusted(envelope, keys / "validator.pub.pem")


def payload(envelope: Path) -> dict[str, Any]:
    document = json.loads(envelope.read_text())
    assert document["payloadType"] == "application/vnd.in-toto+json"
    statement: dict[str, Any] = json.loads(base64.b64decode(document["payload"]))
    return statement


def test_what_is_signed_is_an_in_toto_statement_about_the_manifest(envelope: Path) -> None:
    statement = payload(envelope)
    assert statement == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "flights:3", "digest": {"sha256": VERDICT.manifest_digest}}],
        "predicateType": "urn:tidegate:verdict:1",
        "predicate": VERDICT.to_dict(),
    }
    schema = verdict_schema()
    known = Registry().with_resource(schema["$id"], Resource.from_contents(schema))
    validator = jsonschema.Draft202012Validator({"$ref": f"{schema['$id']}#/$defs/statement"}, registry=known)
    validator.validate(statement)
    assert not validator.is_valid({**statement, "predicateType": "urn:tidegate:override:1"})
    assert not validator.is_valid({**statement, "subject": []})


def test_an_override_is_no_verdict(keys: Path) -> None:
    path = keys / "3.verdict.json"
    override = Override(VERDICT.id, "ab" * 32, "cd" * 32, "skew", "a holiday", VERDICT.issued_at, VERDICT.expires_at)
    write_override(override, path, load_private_key(keys / "validator.pem"))
    assert Override.from_dict(open_override(path).predicate(), "here") == override
    with pytest.raises(Tampered, match=r"urn:tidegate:override:1.* instead of .* urn:tidegate:verdict:1"):
        trusted(path, keys / "validator.pub.pem")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda one: one["subject"][0].update(name="flights:4"), "has subject"),
        (lambda one: one["subject"][0]["digest"].update(sha256="cd" * 32), "has subject"),
        (lambda one: one["subject"].append(one["subject"][0]), "no in-toto statement"),
        (lambda one: one["subject"].clear(), "no in-toto statement"),
        (lambda one: one.update(_type="https://in-toto.io/Statement/v0.1"), "Statement/v0.1"),
        (lambda one: one.pop("predicate"), "no in-toto statement"),
        (lambda one: one.update(predicate=7), "no in-toto statement"),
    ],
)
def test_a_statement_must_be_whole_and_about_its_subject(
    envelope: Path, change: Callable[[dict[str, Any]], object], match: str
) -> None:
    statement = payload(envelope)
    change(statement)
    opened = replace(open_verdict(envelope), payload=json.dumps(statement).encode())
    with pytest.raises(Tampered, match=match):
        opened.predicate()


def test_the_payload_type_is_looked_at(envelope: Path) -> None:
    envelope.write_text(envelope.read_text().replace("vnd.in-toto+json", "vnd.tidegate.verdict+json"))
    with pytest.raises(Tampered, match=r"vnd\.tidegate\.verdict\+json' instead of application/vnd\.in-toto\+json"):
        open_verdict(envelope)


def test_other_keys_are_not_trusted(keys: Path, envelope: Path, tmp_path: Path) -> None:
    make_keys(tmp_path / "other.pem", tmp_path / "other.pub.pem")
    with pytest.raises(NotAdmitted, match="not trusted"):
        trusted(envelope, tmp_path / "other.pub.pem")
    with pytest.raises(NotAdmitted, match="not trusted"):
        trusted(envelope)


def test_missing_verdict_is_not_admitted(tmp_path: Path) -> None:
    with pytest.raises(NotAdmitted, match="tidegate validate"):
        trusted(tmp_path / "3.verdict.json")


def test_keys_are_private_and_never_overwritten(keys: Path) -> None:
    assert (keys / "validator.pem").stat().st_mode & 0o777 == 0o600
    with pytest.raises(AlreadyExists, match="validator"):
        make_keys(keys / "validator.pem", keys / "validator.pub.pem")


def test_a_key_that_a_full_disk_cut_off_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    with no_file_beyond(50), pytest.raises(ResourceExhausted, match=r"validator\.pem cannot be kept"):
        make_keys(folder / "validator.pem", folder / "validator.pub.pem")
    assert list(folder.iterdir()) == []
    make_keys(folder / "validator.pem", folder / "validator.pub.pem")


@pytest.mark.parametrize("inside", ["", "deeper/"])
def test_a_file_where_the_folder_of_a_key_is_to_be_is_told_as_that(tmp_path: Path, inside: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / inside
    with pytest.raises(InvalidInput, match=r"folder of a key is .*file.*, which is or lies in a file: name a folder"):
        make_keys(folder / "validator.pem", folder / "validator.pub.pem")


def test_key_files_that_are_no_keys(keys: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.pem"):
        load_private_key(keys / "none.pem")
    with pytest.raises(InvalidInput, match="private key"):
        load_private_key(keys / "validator.pub.pem")
    with pytest.raises(InvalidInput, match="public key"):
        load_public_key(keys / "validator.pem")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is no JSON"),
        (b"\x08\xa5 a model, as a rule", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b"[]", "it is no DSSE envelope, of payloadType, payload and signatures"),
        (b"{}", "it is no DSSE envelope, of payloadType, payload and signatures"),
        (b'{"payloadType": "a", "payload": 5, "signatures": []}', "it is no DSSE envelope"),
        (b'{"payloadType": "a", "payload": "\xc3\xa9", "signatures": []}', "it is no DSSE envelope"),
    ],
    ids=["empty", "a model", "without end", "a list", "lacks all", "a number", "no ASCII"],
)
def test_a_file_that_is_no_verdict_is_told_as_what_it_is(keys: Path, data: bytes, why: str) -> None:
    file = keys / "model.onnx"
    file.write_bytes(data)
    with pytest.raises(Tampered) as raised:
        open_verdict(file)
    assert raised.value.message.startswith(f"{file} is no signed document, as {why}")
    assert raised.value.message.endswith(": run `tidegate validate` on this version")
