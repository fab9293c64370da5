"""The release without an orchestrator: all steps, and what is left when the gates, the engine or the canary say no."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.progress_log import ProgressLog
from tests.support.release.world import BETTER, CRASHES, Endpoints, World, available, serve_first, traffic

from tidegate_operators.steps import CanaryRule, Evidence
from tidegate_pipelines.release import Release, release
from tidegate_serving.admission import read_trust, trusted_verdict
from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, NotFound, Refused
from tidegate_serving.contract.repository import report_directory, verdict_path

RULE = CanaryRule(pairs=20, within_seconds=30.0)


def request(
    world: World, endpoints: Endpoints, directory: Path, policy: Path | None = None, rule: CanaryRule = RULE
) -> Release:
    return Release(directory, Evidence(world.held_out, policy=policy), world.private_key, endpoints.control, rule)


def test_two_releases_follow_each_other_under_traffic(world: World, endpoints: Endpoints) -> None:
    heard = ProgressLog()
    first = release(request(world, endpoints, world.publish(1, name="walk")), heard)
    assert heard.of("release") == ["validate", "push", "canary", "promote"]
    assert heard.of("judge walk:1") == ["expectations", "quality", "robustness", "skew"]
    assert heard.open == []
    assert first.validated.verdict.first
    assert first.validated.report.is_file()
    directory = world.publish(2, BETTER, name="walk")
    with traffic(endpoints.grpc, "walk"):
        second = release(request(world, endpoints, directory, policy=world.policy("quality")))
    assert (second.pushed.beside, second.promoted.ended) == (1, (1,))
    verdict = trusted_verdict(verdict_path(directory), read_trust([world.public_key])).verdict
    assert verdict == second.validated.verdict
    assert verdict.baseline == first.pushed.manifest_digest
    assert not verdict.first
    assert available(endpoints, "walk") == [2]


def test_what_the_gates_refuse_is_never_pushed(world: World, endpoints: Endpoints) -> None:
    serve_first(endpoints, world, "refused")
    heard = ProgressLog()
    directory = world.publish(2, CRASHES, name="refused")
    with pytest.raises(Refused) as refused:
        release(request(world, endpoints, directory, policy=world.policy("quality", "robustness")), heard)
    assert heard.of("release") == ["validate"]
    assert heard.open == []
    verdict = trusted_verdict(verdict_path(directory), read_trust([world.public_key])).verdict
    assert not verdict.allowed
    assert refused.value.message == verdict.sentence
    assert [gate.gate for gate in verdict.gates if gate.outcome.value == "FAIL"] == ["robustness"]
    assert (report_directory(directory) / "index.html").is_file()
    assert available(endpoints, "refused") == [1]


def test_a_canary_that_does_not_pass_leaves_the_old_version_alone(world: World, endpoints: Endpoints) -> None:
    serve_first(endpoints, world, "quiet")
    rule = CanaryRule(pairs=5, within_seconds=0.5)
    with pytest.raises(Refused, match="0 requests were shadowed"):
        release(
            request(world, endpoints, world.publish(2, BETTER, name="quiet"), rule=rule, policy=world.policy("skew"))
        )
    assert available(endpoints, "quiet") == [1]


def test_missing_evidence_is_named(world: World, endpoints: Endpoints, tmp_path: Path) -> None:
    directory = world.publish(1, name="evidence")
    with pytest.raises(NotFound, match=r"held-out data .*none\.parquet is missing"):
        release(Release(directory, Evidence(tmp_path / "none.parquet"), world.private_key, endpoints.control))
    with pytest.raises(NotFound, match=r"key file .*none\.key is missing"):
        release(Release(directory, Evidence(world.held_out), tmp_path / "none.key", endpoints.control))
    assert not verdict_path(directory).exists()


def test_a_store_that_cannot_take_the_version_is_named_before_anything_is_judged(
    world: World, endpoints: Endpoints, tmp_path: Path
) -> None:
    asked = request(world, endpoints, world.publish(1, name="store"))
    with pytest.raises(InvalidInput, match=r"store foo://x cannot be used .*: write one such as s3://bucket/models"):
        release(replace(asked, store="foo://x"))
    with pytest.raises(InvalidInput, match=r"object store 'models' is no URL"):
        release(replace(asked, store="models"))
    taken = tmp_path / "store" / "1"
    taken.mkdir(parents=True)
    (taken / "manifest.json").write_text("another")
    with pytest.raises(AlreadyExists, match=r"has other files: publish .* under a number that is free"):
        release(replace(asked, store=f"file://{tmp_path}"))
    assert not verdict_path(asked.directory).exists()
