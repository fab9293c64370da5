"""`tidegate keys`, `verify`, `override` and `revoke`: what each says, and exit status 0, 1 and 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Command
from tests.support.models.versions import digest_of, edit_manifest, flip, forge, publish
from tests.support.release.rings import Ring, make_ring

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.repository import override_path, report_directory, verdict_path

POLICY = """
[[override]]
keys = ["alice"]
gates = ["quality"]
outcomes = ["INCONCLUSIVE"]
most_hours = 8
"""


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return make_ring(tmp_path / "keys")


@pytest.fixture
def directory(tmp_path: Path, ring: Ring) -> Path:
    (tmp_path / "policy.toml").write_text(POLICY)
    directory = publish(tmp_path / "models", "m", 1)
    ring.validator().sign(directory)
    return directory


def answers(tidegate: Command, *arguments: Any) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Exit status, answer by check, and the whole document of `verify --json`."""
    done = tidegate("verify", *arguments, "--json")
    document = json.loads(done.stdout)
    return done.returncode, {check["check"]: check["answer"] for check in document["checks"]}, document


def test_a_good_version_verifies_by_key_and_by_ring(tidegate: Command, ring: Ring, directory: Path) -> None:
    for key in (ring.folder, ring.folder / "keyring.json", ring.validator().public):
        status, checks, document = answers(tidegate, directory, "--key", key)
        assert (status, set(checks.values()), document["admits"]) == (0, {"yes"}, True)
        assert document["verdict"]["name"] == "m"
    done = tidegate("verify", directory, "--key", ring.folder)
    assert done.returncode == 0
    assert "signed by validator (key " in done.stdout
    assert done.stdout.splitlines()[-1] == "ADMITTED m:1 is admitted"


def test_a_verdict_alone_verifies_without_its_files(tidegate: Command, ring: Ring, directory: Path) -> None:
    alone = ring.folder / "1.verdict.json"
    alone.write_bytes(verdict_path(directory).read_bytes())
    status, checks, _ = answers(tidegate, alone, "--key", ring.folder)
    assert (status, checks["signature"], checks["files"]) == (0, "yes", "not looked at")


def tampered_verdict(ring: Ring, directory: Path) -> None:
    forge(verdict_path(directory))


def no_verdict(ring: Ring, directory: Path) -> None:
    verdict_path(directory).unlink()


def wrong_key(ring: Ring, directory: Path) -> None:
    make_ring(ring.folder.parent / "elsewhere").validator().sign(directory)


def other_manifest(ring: Ring, directory: Path) -> None:
    edit_manifest(directory, created_at="2026-01-02T00:00:00Z")


def other_files(ring: Ring, directory: Path) -> None:
    flip(directory / "model.py", 3)


def expired(ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory, valid_for=-timedelta(days=1))


def denied(ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory, allowed=False)


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (tampered_verdict, "signature", "changed after it was signed: run `tidegate validate` again"),
        (no_verdict, "signature", "is missing: run `tidegate validate` on this version"),
        (wrong_key, "signature", "is not trusted here"),
        (other_manifest, "manifest", "is not what"),
        (other_files, "files", "model.py differs from the manifest"),
        (expired, "date", "expired at"),
        (denied, "decision", "1.verdict.json says no: It is worse than the one before"),
    ],
)
def test_a_refusal_names_the_check_and_the_cure(
    tidegate: Command, ring: Ring, directory: Path, spoil: Callable[[Ring, Path], None], check: str, words: str
) -> None:
    spoil(ring, directory)
    status, checks, document = answers(tidegate, directory, "--key", ring.folder)
    assert (status, document["admits"]) == (1, False)
    assert [name for name, answer in checks.items() if answer == "no"] == [check]
    assert words in document["sentence"]
    done = tidegate("verify", directory, "--key", ring.folder)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("REFUSED ")


def test_nothing_of_an_unsigned_verdict_is_believed(tidegate: Command, ring: Ring, directory: Path) -> None:
    tampered_verdict(ring, directory)
    _, checks, document = answers(tidegate, directory, "--key", ring.folder)
    assert set(checks.values()) == {"no", "not looked at"}
    assert document["verdict"] is None


def test_the_moment_can_be_chosen(tidegate: Command, ring: Ring, directory: Path) -> None:
    assert answers(tidegate, directory, "--key", ring.folder, "--at", "2099-01-01T00:00:00Z")[0] == 1
    done = tidegate("verify", directory, "--key", ring.folder, "--at", "tomorrow")
    assert (done.returncode, "--at is 'tomorrow', which is no date" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [("models/m/9", "--key", "keys"), ("models/m/1", "--key", "none.pub"), ("models/m/1", "--key", "models")],
)
def test_what_cannot_be_found_out_is_status_2(tidegate: Command, directory: Path, arguments: tuple[str, ...]) -> None:
    done = tidegate("verify", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("tidegate: ")


def test_keys_are_made_rotated_revoked_and_listed(tidegate: Command, tmp_path: Path) -> None:
    assert tidegate("keys", "new", "ring").returncode == 0
    assert tidegate("keys", "new", "ring", "--name", "alice", "--role", "override", "--days", "90").returncode == 0
    assert tidegate("keys", "new", "elsewhere", "--name", "bob").returncode == 0
    assert tidegate("keys", "add", "ring", "elsewhere/bob.pub", "--name", "bob", "--role", "override").returncode == 0
    assert "made ring/validator-2.key" in tidegate("keys", "rotate", "ring").stdout
    assert tidegate("keys", "revoke", "ring", "bob", "--reason", "left the company").returncode == 0
    document = json.loads(tidegate("keys", "list", "ring", "--json").stdout)
    kinds = {(key["name"], key["role"], key["not_after"] is None, key["revoked"] is None) for key in document["keys"]}
    assert kinds == {
        ("validator", "validator", False, True),
        ("validator", "validator", True, True),
        ("alice", "override", False, True),
        ("bob", "override", True, False),
    }
    assert "REVOKED as compromised" in tidegate("keys", "list", "ring").stdout
    assert "made ring/bob-2.key" not in tidegate("keys", "rotate", "ring", "--name", "bob").stdout
    assert "made ring/bob-2.key" in tidegate("keys", "new", "ring", "--name", "bob").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("revoke", "keys", "carol", "--reason", "gone"), "has no key 'carol'"),
        (("revoke", "keys", "alice", "--reason", " "), "needs a reason"),
        (("rotate", "keys", "--name", "carol"), "no key in use named 'carol'"),
        (("new", "keys", "--name", "alice"), "has a key named 'alice'"),
        (("new", "keys", "--name", "../alice"), "'../alice' cannot be used"),
        (("new", "keys", "--name", "carol", "--role", "king"), "neither validator nor override"),
        (("new", "keys", "--name", "carol", "--days", "0"), "use more than 0"),
        (("list", "models"), "keyring.json is missing"),
        (("rotate", "kees"), "kees is no key ring"),
        (("revoke", "kees", "alice", "--reason", "gone"), "kees is no key ring"),
    ],
)
def test_a_mistake_with_keys_is_said_and_changes_nothing(
    tidegate: Command, ring: Ring, directory: Path, arguments: tuple[str, ...], words: str
) -> None:
    before = (ring.folder / "keyring.json").read_bytes()
    done = tidegate("keys", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert (ring.folder / "keyring.json").read_bytes() == before
    assert not (ring.folder.parent / "kees").exists()


def glass(directory: Path, **changes: str) -> tuple[Any, ...]:
    options = {
        "gate": "quality",
        "reason": "on fire",
        "expires": "4h",
        "key": "keys/alice.key",
        "policy": "policy.toml",
    }
    options.update(changes)
    return ("override", directory, *(part for name, value in options.items() for part in (f"--{name}", value)))


@pytest.mark.parametrize("ring_option", [(), ("--ring", "keys")])
def test_an_override_counts_where_the_policy_permits_it(
    tidegate: Command, ring: Ring, directory: Path, ring_option: tuple[str, ...]
) -> None:
    ring.validator().sign(directory, allowed=False, denied_by=Outcome.INCONCLUSIVE)
    done = tidegate(*glass(directory), *ring_option)
    assert done.returncode == 0, done.stderr
    assert "INCONCLUSIVE of the quality gate for m:1 is overridden by alice" in done.stdout
    status, _, document = answers(tidegate, directory, "--key", ring.folder, "--policy", "policy.toml")
    assert (status, document["overrides"][0]["reason"]) == (0, "on fire")
    assert document["sentence"] == "m:1 is admitted by override"
    status, _, document = answers(tidegate, directory, "--key", ring.folder)
    assert (status, "no [[override]] rule" in document["sentence"]) == (1, True)


def test_an_override_shows_in_the_report(tidegate: Command, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory, allowed=False, denied_by=Outcome.INCONCLUSIVE)
    assert tidegate(*glass(directory)).returncode == 0
    assert not report_directory(directory).exists(), "a report is written anew, never made"
    report_directory(directory).mkdir()
    assert tidegate(*glass(directory)).returncode == 0
    page = (report_directory(directory) / "index.html").read_text()
    assert "Push allowed: only by override, until" in page
    assert "“on fire”" in page


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"expires": "9h"}, 1, "for at most 8 hours, not for 9"),
        ({"key": "keys/validator.key"}, 1, "no [[override]] rule lets validator"),
        ({"key": "keys/validator.key", "ring": "keys"}, 1, "trusted as validator in keys, not as override"),
        ({"gate": "skew"}, 2, "the skew gate does not deny m:1: override quality"),
        ({"reason": ""}, 2, "has no reason"),
        ({"expires": "soon"}, 2, "'soon' is no span of time"),
        ({"expires": "0h"}, 2, "over at once"),
        ({"policy": "none.toml"}, 2, "none.toml is missing"),
    ],
)
def test_an_override_that_would_not_count_is_not_written(
    tidegate: Command, ring: Ring, directory: Path, changes: dict[str, str], status: int, words: str
) -> None:
    ring.validator().sign(directory, allowed=False, denied_by=Outcome.INCONCLUSIVE)
    done = tidegate(*glass(directory, **changes))
    assert (done.returncode, words in done.stderr) == (status, True), done.stderr
    assert not override_path(directory, "quality").exists()
    assert not override_path(directory, "skew").exists()


def test_what_is_allowed_needs_no_override(tidegate: Command, directory: Path) -> None:
    done = tidegate(*glass(directory))
    assert (done.returncode, "allows m:1 already" in done.stderr) == (2, True)


def test_a_revoked_version_does_not_verify(tidegate: Command, ring: Ring, directory: Path) -> None:
    assert tidegate("revoke", directory, "--ring", "keys", "--reason", "leaked labels").returncode == 0
    status, checks, document = answers(tidegate, directory, "--key", ring.folder)
    assert (status, checks["revocation"], "leaked labels" in document["sentence"]) == (1, "no", True)
    again = tidegate("revoke", digest_of(directory), "--ring", "keys", "--reason", "again")
    assert (again.returncode, "was revoked already" in again.stderr) == (2, True)
    assert "m:1" in tidegate("keys", "list", "keys").stdout
    assert tidegate("revoke", "abc", "--ring", "keys", "--reason", "again").returncode == 2
