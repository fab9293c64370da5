"""`tidegate validate`, `release` and `skew` with real gates: tables, sentences, exit status 0 and 1."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.support.command import Command
from tests.support.release.world import BETTER, CRASHES, HONEST, SIGNATURE, Endpoints, World, serve_first, traffic

from tidegate_operators.steps import Evidence, Publication
from tidegate_pipelines.cli import gate, publish, releases
from tidegate_serving.admission import read_trust, trusted_verdict
from tidegate_serving.contract.repository import report_directory, verdict_path


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("COLUMNS", "400")
    return Command(monkeypatch, capsys)


def evidence(world: World) -> tuple[str, ...]:
    return ("--held-out", str(world.held_out), "--key", str(world.private_key))


def test_a_good_version_gets_a_signed_verdict_and_a_report(tidegate: Command, world: World) -> None:
    first = world.publish(1, name="judged")
    done = tidegate("validate", first, *evidence(world))
    assert done.returncode == 0, done.stderr
    for name in ("expectations", "quality", "robustness", "skew"):
        assert name in done.stdout
    assert str(verdict_path(first)) in done.stdout
    assert trusted_verdict(verdict_path(first), read_trust([world.public_key])).verdict.first
    assert (report_directory(first) / "index.html").is_file()
    second = world.publish(2, BETTER, name="judged")
    one_gate = ("--policy", world.policy("quality"), "--baseline", first)
    assert tidegate("validate", second, *evidence(world), *one_gate).returncode == 0
    assert not trusted_verdict(verdict_path(second), read_trust([world.public_key])).verdict.first


def test_a_version_that_crashes_is_a_no_with_its_reason_on_stderr(tidegate: Command, world: World) -> None:
    directory = world.publish(1, CRASHES, name="crashing")
    done = tidegate("validate", directory, *evidence(world), "--policy", world.policy("robustness"))
    assert done.returncode == 1
    verdict = trusted_verdict(verdict_path(directory), read_trust([world.public_key])).verdict
    assert not verdict.allowed
    assert done.stderr == f"tidegate: {verdict.sentence}\n"
    assert "robustness" in done.stderr
    assert "FAIL" in done.stdout


def test_a_label_that_contradicts_the_manifest_is_a_mistake(tidegate: Command, world: World) -> None:
    directory = world.publish(1, name="labelled")
    for command in ("validate", "release"):
        compared = ("--baseline", directory, "--log", world.log)
        done = tidegate(command, directory, *evidence(world), *compared, "--label", "kind")
        assert done.returncode == 2
        assert "names label 'late', not 'kind'" in done.stderr


@pytest.mark.parametrize(
    ("command", "request_type", "called", "without"),
    [
        (gate.validate, Evidence, {"log_root": "log"}, set()),
        (releases.release, Evidence, {"log_root": "log"}, set()),
        (publish.publish, Publication, {"servable": "name"}, {"sample"}),
    ],
)
def test_a_commands_options_are_the_fields_of_what_it_hands_on(
    command: Callable[..., None], request_type: type, called: dict[str, str], without: set[str]
) -> None:
    names = {called.get(one.name, one.name) for one in fields(request_type)} - without
    assert names <= set(inspect.signature(command).parameters)


def test_held_out_data_of_no_known_kind_is_a_mistake(tidegate: Command, world: World, tmp_path: Path) -> None:
    directory = world.publish(1, name="text")
    (tmp_path / "rows.xls").write_text("x,late\n1,1\n")
    done = tidegate("validate", directory, "--held-out", tmp_path / "rows.xls", "--key", world.private_key)
    assert done.returncode == 2
    assert "rows.xls is of no kind that is known by its name" in done.stderr


def test_a_model_that_nobody_published_is_judged_on_csv_and_nothing_is_signed(
    tidegate: Command, world: World, tmp_path: Path
) -> None:
    pyarrow.csv.write_csv(pq.read_table(world.held_out), tmp_path / "rows.csv")
    first = world.publish(1, name="unsigned")
    one_gate = ("--policy", world.policy("skew"))
    done = tidegate("validate", first, "--data", tmp_path / "rows.csv", "--report", tmp_path / "report", *one_gate)
    assert done.returncode == 0, done.stderr
    assert "nothing is signed" in done.stdout
    assert not verdict_path(first).exists()
    assert (tmp_path / "report" / "index.html").is_file()
    done = tidegate("validate", first, "--data", tmp_path / "rows.csv", "--key", world.private_key, "--report", "x")
    assert done.returncode == 2
    assert "--report" in done.stderr


def test_a_model_that_tells_no_signature_is_judged_by_a_given_one(
    tidegate: Command, world: World, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(HONEST)
    (tmp_path / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
    given = ("--data", world.held_out, "--label", "late", "--policy", world.policy("quality"))
    called = ("--platform", "python", "--signature", tmp_path / "signature.json")
    done = tidegate("validate", tmp_path / "model.py", *given, *called)
    assert done.returncode == 0, done.stderr
    assert "nothing is signed" in done.stdout
    done = tidegate("validate", tmp_path / "model.py", *given)
    assert done.returncode == 2
    assert "name the platform" in done.stderr
    theirs = ("--baseline-platform", "python", "--baseline-signature", tmp_path / "signature.json")
    against = ("--baseline", tmp_path / "model.py")
    directory = world.publish(1, name="called")
    done = tidegate("validate", directory, *given, *against, *theirs)
    assert done.returncode == 0, done.stderr
    for option in (called[2:], theirs[:2]):
        done = tidegate("validate", directory, *given, *option, "--key", world.private_key)
        assert done.returncode == 2
        assert option[0] in done.stderr


def test_a_release_and_a_skew_report_in_one_command_each(tidegate: Command, world: World, endpoints: Endpoints) -> None:
    first, second = world.publish(1, name="whole"), world.publish(2, BETTER, name="whole")
    control = ("--control", endpoints.control, "--pairs", "20", "--within", "30", "--policy", world.policy("quality"))
    done = tidegate("release", first, *evidence(world), *control)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "whole:1 is stable"
    with traffic(endpoints.grpc, "whole"):
        done = tidegate("release", second, *evidence(world), *control)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "whole:2 is stable"
    done = tidegate("skew", first, "--control", endpoints.control, "--report", world.root / "skew")
    assert "feature" in done.stdout
    assert (world.root / "skew" / "index.html").is_file()


def test_a_release_that_is_refused_shows_what_each_gate_said(
    tidegate: Command, world: World, endpoints: Endpoints
) -> None:
    serve_first(endpoints, world, "shown")
    control = ("--control", endpoints.control, "--policy", world.policy("quality", "robustness"))
    done = tidegate("release", world.publish(2, CRASHES, name="shown"), *evidence(world), *control)
    assert done.returncode == 1
    assert "Verdict on shown:2" in done.stdout
    assert "report/index.html" in done.stdout
    assert "stable" not in done.stdout


def test_a_release_that_nobody_asks_yet_leaves_the_canary_out(
    tidegate: Command, world: World, endpoints: Endpoints
) -> None:
    serve_first(endpoints, world, "unasked")
    control = ("--control", endpoints.control, "--policy", world.policy("quality"), "--no-canary")
    done = tidegate("release", world.publish(2, BETTER, name="unasked"), *evidence(world), *control)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "unasked:2 is stable"


def test_a_window_in_which_nothing_was_logged_is_no_pass(tidegate: Command, world: World, endpoints: Endpoints) -> None:
    first = serve_first(endpoints, world, "silent")
    done = tidegate("skew", first, "--control", endpoints.control, "--since", "2013-06-05", "--until", "2013-06-06")
    assert done.returncode == 1
    assert "Nothing was logged" in done.stderr
