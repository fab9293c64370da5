"""Users' checks in a sandboxed process: what they return, raise or do to their process comes back as an answer."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput, Unavailable
from tidegate_validation.checks.process import CheckAnswer, CheckKind, run_check
from tidegate_validation.sandbox import process
from tidegate_validation.sandbox.limits import SandboxLimits

CHECKS = """
import os, sys
from tidegate_serving.admission import Finding, Outcome

def looks(request):
    print("looking")
    rows, folder = request["data"].num_rows, request["nested"]["folder"]
    words = f"{rows} rows, {sorted(os.listdir(folder))}, {request['nested']['numbers']}"
    return [Finding("mine", "folder", Outcome.WARN, words, number=1.5)]

def silent(request): return None
def raises(request): raise KeyError("nothing there")
def leaves(request): os._exit(0)
def signals(request): os.kill(os.getpid(), 40)
def waits(request): __import__("threading").Event().wait()
def nonsense(request): return [{"check": "mine"}]
def calls(request): __import__("socket").create_connection(("192.0.2.7", 80), 1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "parcel_checks.py").write_text(textwrap.dedent(CHECKS))
    monkeypatch.syspath_prepend(str(modules))
    version = tmp_path / "version"
    version.mkdir()
    (version / "weights").write_bytes(b"1")
    return version


def ran(name: str, folder: Path, seconds: float = 20.0) -> CheckAnswer:
    request = {"data": pa.table({"a": [1, 2, 3]}), "nested": {"folder": folder, "numbers": [1, 2.5, None, True]}}
    return run_check(f"parcel_checks:{name}", request, SandboxLimits(), seconds)


def test_a_check_sees_tables_and_paths_and_its_findings_come_back(folder: Path) -> None:
    answer = ran("looks", folder)
    assert answer.kind is CheckKind.FINDINGS, answer
    (finding,) = answer.findings
    assert (finding.outcome, finding.number) == (Outcome.WARN, 1.5)
    assert finding.sentence == "3 rows, ['weights'], [1, 2.5, None, True]"
    assert "looking" in answer.log
    assert ran("silent", folder).findings == ()


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("raises", CheckKind.RAISED, "KeyError: 'nothing there'"),
        ("leaves", CheckKind.DIED, "ended with exit status 0 and gave no answer"),
        ("signals", CheckKind.DIED, "was ended by signal 40"),
        ("nonsense", CheckKind.GARBLED, "answered what is no finding"),
        ("unknown", CheckKind.RAISED, "has no attribute 'unknown'"),
        ("calls", CheckKind.RAISED, "unreachable"),
    ],
)
def test_whatever_a_check_does_is_an_answer(folder: Path, name: str, kind: CheckKind, words: str) -> None:
    answer = ran(name, folder)
    assert answer.kind is kind
    assert words in answer.words
    assert not answer.findings


def test_a_check_that_hangs_is_ended_at_its_deadline(folder: Path) -> None:
    answer = ran("waits", folder, seconds=4.0)
    assert answer.kind is CheckKind.HUNG
    assert answer.words == "gave no answer within 4 s"
    assert "parcel_checks.py" in answer.log, "where it hung"
    assert answer.seconds >= 4.0


def test_what_cannot_be_handed_over_is_said(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="object"):
        run_check("parcel_checks:silent", {"thing": object()}, SandboxLimits(), 5.0)


def test_a_sandbox_that_cannot_start_is_no_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox's own faults are tried again, and raise in the end; they say nothing about the check."""
    monkeypatch.setattr(process, "_SUPERVISOR", folder / "no-such-supervisor.py")
    with pytest.raises(Unavailable, match="could not be started 3 times"):
        ran("silent", folder)
