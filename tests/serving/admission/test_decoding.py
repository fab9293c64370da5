"""Whatever lies in a file of a verdict, an override or a ring, reading gives what was written or one of our errors."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_serving.admission import (
    Finding,
    GateResult,
    KeyRing,
    Outcome,
    Override,
    Role,
    Verdict,
    claimed_verdict,
    key_of,
    load_private_key,
    make_keys,
    open_override,
    read_ring,
    read_trust,
    trusted_verdict,
    write_override,
    write_ring,
    write_verdict,
)
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.servable import ServableId

T = TypeVar("T")
EXAMPLES = settings(max_examples=60, deadline=None)
DIGEST = st.text("0123456789abcdef", min_size=64, max_size=64)
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
MOMENT = st.datetimes().map(lambda moment: f"{moment.isoformat(timespec='seconds')}+00:00")
ID = st.builds(ServableId, st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True), st.integers(0, 2**63 - 1))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FINDING = st.builds(
    Finding,
    check=TEXT,
    subject=TEXT,
    outcome=st.sampled_from([Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.ERROR]),
    sentence=TEXT,
    number=st.none() | NUMBER,
    interval=st.none() | st.tuples(NUMBER | st.just(-float("inf")), NUMBER | st.just(float("inf"))),
    p_value=st.none() | st.floats(0, 1),
    rows_needed=st.none() | st.integers(0, 10**9),
    cause=st.none() | st.builds(lambda kind, factor: {"kind": kind, "factor": factor}, TEXT, NUMBER),
)
GATE = st.builds(
    GateResult, TEXT, st.sampled_from(Outcome), TEXT, st.lists(FINDING, max_size=3).map(tuple), st.floats(0, 1e6)
)


@st.composite
def verdicts(draw: st.DrawFn) -> Verdict:
    denied_by = tuple(draw(st.lists(TEXT, max_size=2, unique=True)))
    first = draw(st.booleans())
    return Verdict(
        id=draw(ID),
        manifest_digest=draw(DIGEST),
        outcome=draw(st.sampled_from(Outcome)),
        allowed=not denied_by,
        sentence=draw(TEXT),
        gates=tuple(draw(st.lists(GATE, max_size=3))),
        first=first,
        baseline=None if first else draw(DIGEST),
        data_digest=draw(DIGEST),
        config_digest=draw(DIGEST),
        tool_version=draw(TEXT),
        issued_at=draw(MOMENT),
        expires_at=draw(MOMENT),
        notes=tuple(draw(st.lists(TEXT, max_size=2))),
        denied_by=denied_by,
    )


VERDICT = Verdict(
    id=ServableId("flights", 3),
    manifest_digest="ab" * 32,
    outcome=Outcome.FAIL,
    allowed=False,
    sentence="distance is off",
    gates=(GateResult("skew", Outcome.FAIL, "off", (Finding("skew", "distance", Outcome.FAIL, "off"),), 0.5),),
    first=True,
    baseline=None,
    data_digest="d" * 64,
    config_digest="c" * 64,
    denied_by=("skew",),
    tool_version="0.1.0",
    issued_at="2013-06-01T00:00:00Z",
    expires_at="2013-07-01T00:00:00Z",
)
OVERRIDE = Override(
    VERDICT.id, "ab" * 32, "cd" * 32, "skew", "a holiday", "2013-06-01T00:00:00Z", "2013-06-01T04:00:00Z"
)


class Signer:
    """A validator's keys, and one file that is written and read again and again."""

    def __init__(self, folder: Path) -> None:
        make_keys(folder / "validator.key", folder / "validator.pub")
        self.public = folder / "validator.pub"
        self.key = load_private_key(folder / "validator.key")
        self.ring = read_trust([self.public])
        self.file = folder / "3.verdict.json"

    def sign(self, payload: bytes) -> None:
        """An envelope of any payload with a right signature, as a faulty validator would make it."""
        kind = b"application/vnd.in-toto+json"
        signature = self.key.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
        (name,) = self.ring.keys
        envelope = {
            "payloadType": kind.decode(),
            "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": name, "sig": base64.b64encode(signature).decode()}],
        }
        self.file.write_text(json.dumps(envelope))

    def statement(self, signed: Verdict | Override) -> dict[str, Any]:
        """What is signed for a verdict or an override."""
        if isinstance(signed, Verdict):
            write_verdict(signed, self.file, self.key)
        else:
            write_override(signed, self.file, self.key)
        found: dict[str, Any] = json.loads(base64.b64decode(json.loads(self.file.read_text())["payload"]))
        return found


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("keys"))


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a document."""
    items = document.items() if isinstance(document, Mapping) else enumerate(document)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """The document with one value gone or another."""
    changed = copy.deepcopy(document)
    *way, last = draw(st.sampled_from(list(places(document))))
    inner = changed
    for key in way:
        inner = inner[key]
    if draw(st.booleans()):
        del inner[last]
    else:
        inner[last] = draw(ANY_JSON)
    return changed


def attempt(read: Callable[[], T]) -> T | str:
    """What was read, or what our error says; any other error is the test's."""
    try:
        return read()
    except TidegateError as error:
        return error.message


@EXAMPLES
@given(verdict=verdicts())
def test_every_verdict_comes_back_as_it_was_signed(signer: Signer, verdict: Verdict) -> None:
    digest = write_verdict(verdict, signer.file, signer.key)
    signed = trusted_verdict(signer.file, signer.ring)
    assert (signed.verdict, signed.digest) == (verdict, digest)
    assert claimed_verdict(signer.file) == verdict


@EXAMPLES
@given(data=st.binary(max_size=200) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_verdict_or_our_error(signer: Signer, data: bytes) -> None:
    signer.file.write_bytes(data)
    for read in (lambda: trusted_verdict(signer.file, signer.ring), lambda: claimed_verdict(signer.file)):
        with pytest.raises(TidegateError, match=r"3\.verdict\.json"):
            read()


@EXAMPLES
@given(data=st.binary(max_size=200) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_signed_bytes_are_our_error(signer: Signer, data: bytes) -> None:
    signer.sign(data)
    with pytest.raises(TidegateError, match=r"3\.verdict\.json"):
        trusted_verdict(signer.file, signer.ring)


@EXAMPLES
@given(data=st.data())
def test_a_signed_statement_with_anything_in_it_is_a_verdict_or_our_error(signer: Signer, data: st.DataObject) -> None:
    statement = data.draw(altered(signer.statement(VERDICT)))
    signer.sign(json.dumps(statement).encode())
    found = attempt(lambda: trusted_verdict(signer.file, signer.ring).verdict)
    if isinstance(found, str):
        assert "3.verdict.json" in found
    else:
        assert (found.id, found.manifest_digest, found.allowed) == (VERDICT.id, VERDICT.manifest_digest, False)


@EXAMPLES
@given(data=st.data())
def test_an_override_with_anything_in_it_is_an_override_or_our_error(signer: Signer, data: st.DataObject) -> None:
    statement = data.draw(altered(signer.statement(OVERRIDE)))
    signer.sign(json.dumps(statement).encode())
    found = attempt(lambda: Override.from_dict(open_override(signer.file).predicate(), str(signer.file)))
    if isinstance(found, str):
        assert "3.verdict.json" in found
    else:
        assert (found.id, found.manifest_digest) == (OVERRIDE.id, OVERRIDE.manifest_digest)


def test_nesting_without_end_is_our_error(signer: Signer) -> None:
    deep = b"[" * 100_000
    signer.sign(deep)
    with pytest.raises(TidegateError, match="no in-toto statement"):
        trusted_verdict(signer.file, signer.ring)
    signer.file.write_bytes(deep)
    with pytest.raises(TidegateError, match="no signed document"):
        trusted_verdict(signer.file, signer.ring)
    with pytest.raises(TidegateError, match="no key ring"):
        read_ring(signer.file)


@EXAMPLES
@given(data=st.data())
def test_a_ring_with_anything_in_it_is_a_ring_or_our_error(signer: Signer, data: st.DataObject) -> None:
    key = replace(key_of(signer.public, "alice", Role.OVERRIDE, VERDICT.issued_at), not_after=VERDICT.expires_at)
    file = signer.file.with_name("keyring.json")
    write_ring(KeyRing.of([key]), file)
    assert read_ring(file) == KeyRing.of([key])
    file.write_text(json.dumps(data.draw(altered(json.loads(file.read_text())))))
    found = attempt(lambda: read_ring(file))
    if isinstance(found, str):
        assert "keyring.json" in found
    else:
        assert {one.role for one in found.keys.values()} <= set(Role)
