"""A version's metrics beside those of its predecessors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict, load_private_key, make_keys, write_verdict
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.quality.judgement.finding import METRIC
from tidegate_validation.quality.judgement.history import against_history
from tidegate_validation.quality.rule import QualityRule


def metric(value: float, name: str = "AUC", error: float = 0.001) -> Finding:
    return Finding(METRIC, name, Outcome.PASS, f"{name} {value}", value, (value - 2 * error, value + 2 * error))


def verdict_file(root: Path, version: int, findings: Sequence[Finding], *, allowed: bool = True) -> None:
    result = GateResult("quality", Outcome.PASS, "fine", tuple(findings))
    verdict = Verdict(
        id=ServableId("m", version),
        manifest_digest="a" * 64,
        outcome=Outcome.PASS,
        allowed=allowed,
        sentence="made for a test",
        gates=(result,),
        first=True,
        baseline=None,
        data_digest="0" * 64,
        config_digest="0" * 64,
        tool_version="test",
        issued_at="2026-01-01T00:00:00+00:00",
        expires_at="2026-02-01T00:00:00+00:00",
        denied_by=() if allowed else ("quality",),
    )
    if not (root / "key").exists():
        make_keys(root / "key", root / "pub")
    (root / "m").mkdir(exist_ok=True)
    path = verdict_path(root / "m" / str(version))
    path.unlink(missing_ok=True)
    write_verdict(verdict, path, load_private_key(root / "key"))


def judged(root: Path, version: int, value: float) -> list[Finding]:
    return against_history(root / "m" / str(version), [metric(value)], QualityRule())


def test_an_outlier_among_its_predecessors_is_said_to_be_one(tmp_path: Path) -> None:
    for version, value in enumerate((0.81, 0.82, 0.80, 0.815, 0.805), 1):
        verdict_file(tmp_path, version, [metric(value)])
    (usual,) = judged(tmp_path, 6, 0.82)
    assert usual.outcome is Outcome.PASS
    (worse,) = judged(tmp_path, 6, 0.70)
    assert (worse.outcome, worse.subject) == (Outcome.WARN, "AUC")
    assert "an outlier among the 5 before it: they reach 0.8 to 0.82" in worse.sentence
    (better,) = judged(tmp_path, 6, 0.95)
    assert better.outcome is Outcome.WARN
    assert judged(tmp_path, 5, 0.70) == []


def test_refused_versions_later_ones_and_unreadable_verdicts_are_no_history(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for version in range(1, 5):
        verdict_file(tmp_path, version, [metric(0.8 + version / 1000)])
    verdict_file(tmp_path, 5, [metric(0.2)], allowed=False)
    verdict_file(tmp_path, 9, [metric(0.81)])
    assert judged(tmp_path, 7, 0.5) == []
    verdict_path(tmp_path / "m" / "6").write_text("not json")
    assert judged(tmp_path, 7, 0.5) == []
    assert "6.verdict.json is left out of the history" in caplog.text
    verdict_file(tmp_path, 6, [metric(0.81)])
    assert [one.outcome for one in judged(tmp_path, 7, 0.5)] == [Outcome.WARN]


def test_history_calls_one_version_in_a_hundred_an_outlier(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    called = 0
    for trial in range(50):
        root = tmp_path / str(trial)
        for version, value in enumerate(random.normal(0.8, 0.02, 6), 1):
            verdict_file(root, version, [metric(float(value))])
        called += judged(root, 7, float(random.normal(0.8, 0.02)))[0].outcome is Outcome.WARN
    assert called <= 3
