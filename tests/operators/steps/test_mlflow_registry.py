"""Verdicts told to a real MLflow server, and versions that its registry holds published from there."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.command import Command
from tests.support.neighbours.between import stand_between
from tests.support.neighbours.http_server import http_server
from tests.support.release.world import World, make_world

from tidegate_operators.steps.mlflow_registry import (
    RegisteredVersion,
    check_server_answers,
    mlflow_signature,
    publish_registered,
    published_before,
    record_verdict,
    write_signature,
)
from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict, read_trust, trusted_verdict
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError, Unavailable
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import report_directory, verdict_path
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec

pytestmark = pytest.mark.filterwarnings("default")  # MLflow warns of its own typing as it is imported
SIGNATURE = Signature((TensorSpec("a", "float64"), TensorSpec("b", "float64")), (TensorSpec("label", "int64"),))


@pytest.fixture(scope="module")
def client(mlflow_address: str) -> Iterator[Any]:
    import mlflow

    mlflow.set_tracking_uri(mlflow_address)
    yield mlflow.MlflowClient(mlflow_address)
    mlflow.set_tracking_uri("")


@pytest.fixture(scope="module")
def registered(client: Any, mlflow_address: str) -> RegisteredVersion:
    """A scikit-learn model without a signature, logged by a training run and registered as `walk` 1."""
    import mlflow
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(3)
    rows = pd.DataFrame({"a": random.normal(size=200), "b": random.normal(size=200)})
    model = LogisticRegression().fit(rows, rows["a"] > 0)
    with mlflow.start_run():
        mlflow.log_metric("val_auc", 0.83)
        mlflow.sklearn.log_model(model, name="model", pip_requirements=["scikit-learn"], registered_model_name="walk")
    client.set_registered_model_alias("walk", "candidate", "1")
    return RegisteredVersion(mlflow_address, "walk", "@candidate")


def verdict_on(world: World, findings: tuple[Finding, ...]) -> tuple[Verdict, Path]:
    directory = world.publish(1, name="walk")
    world.admit(directory)
    (report_directory(directory)).mkdir(exist_ok=True)
    (report_directory(directory) / "index.html").write_text("<p>a report</p>")
    verdict = trusted_verdict(verdict_path(directory), read_trust([world.public_key])).verdict
    return replace(verdict, gates=(GateResult("quality", Outcome.PASS, "no worse", findings),)), directory


def test_a_verdict_is_told_to_the_registry_and_to_the_run(
    client: Any, registered: RegisteredVersion, world: World
) -> None:
    finding = Finding("metric", "AUC", Outcome.PASS, "no worse", number=0.01, interval=(-0.002, 0.02))
    verdict, directory = verdict_on(world, (finding, Finding("churn", "answers (%)", Outcome.PASS, "few")))
    written = record_verdict(registered, verdict, directory)
    assert written == {
        "tidegate.quality.metric.AUC": 0.01,
        "tidegate.quality.metric.AUC.low": -0.002,
        "tidegate.quality.metric.AUC.high": 0.02,
    }
    version = client.get_model_version("walk", "1")
    assert version.tags["tidegate.outcome"] == "PASS"
    assert version.tags["tidegate.allowed"] == "true"
    assert version.tags["tidegate.manifest_digest"] == verdict.manifest_digest
    run = client.get_run(version.run_id)
    assert run.data.metrics == {"val_auc": 0.83, **written}
    assert {entry.path for entry in client.list_artifacts(version.run_id, "tidegate")} == {
        "tidegate/1.verdict.json",
        "tidegate/report",
    }


def test_a_verdict_on_another_version_is_not_recorded(registered: RegisteredVersion, world: World) -> None:
    directory = world.publish(2, name="walk")
    world.admit(directory)
    verdict = trusted_verdict(verdict_path(directory), read_trust([world.public_key])).verdict
    with pytest.raises(InvalidInput, match="about walk:2"):
        record_verdict(registered, verdict)


def test_a_model_without_a_signature_gets_ours_once(registered: RegisteredVersion) -> None:
    import mlflow

    signatures = {SERVING_DEFAULT: SIGNATURE}
    assert write_signature(registered, signatures)
    assert not write_signature(registered, signatures)
    info = mlflow.models.get_model_info(f"models:/{registered.name}/1")
    assert [(column.name, column.type.name) for column in info.signature.inputs] == [("a", "double"), ("b", "double")]


def test_a_registered_version_is_published_under_its_number_with_its_runs_metrics(
    registered: RegisteredVersion, tmp_path: Path
) -> None:
    rows = pd.DataFrame({"a": [0.5, -1.0], "b": [0.0, 2.0], "late": [1, 0]})
    write_signature(registered, {SERVING_DEFAULT: SIGNATURE})
    published = publish_registered(registered, repository=tmp_path, sample=rows, label="late")
    manifest, _ = read_manifest(published.directory)
    assert (manifest.id.name, manifest.id.version, manifest.platform) == ("walk", 1, "mlflow")
    assert manifest.metadata["mlflow.model"] == "models:/walk/1"
    assert manifest.metadata["mlflow.metric.val_auc"] == "0.83"
    assert [spec.name for spec in manifest.signatures[SERVING_DEFAULT].inputs] == ["a", "b"]


def test_training_data_tells_the_signature_of_a_registered_version_that_has_none(
    client: Any, mlflow_address: str, tmp_path: Path
) -> None:
    import mlflow
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(4)
    rows = pd.DataFrame({"a": random.normal(size=200), "b": random.integers(0, 9, 200)})
    rows["late"] = (rows["a"] > 0).astype("int64")
    model = LogisticRegression().fit(rows[["a", "b"]], rows["late"])
    given = {"pip_requirements": ["scikit-learn"], "serialization_format": "skops"}
    mlflow.sklearn.log_model(model, name="model", registered_model_name="bare", **given)
    bare = RegisteredVersion(mlflow_address, "bare", "1")
    published = publish_registered(bare, repository=tmp_path, training=rows, label="late")
    signature = read_manifest(published.directory)[0].signatures[SERVING_DEFAULT]
    assert [(spec.name, spec.dtype) for spec in signature.inputs] == [("a", "float64"), ("b", "int64")]
    assert [spec.name for spec in signature.outputs] == ["probability"]
    with pytest.raises(InvalidInput, match="does not know their dtypes: give training data"):
        publish_registered(bare, repository=tmp_path / "other")


def test_tensors_stay_tensors_in_mlflows_words() -> None:
    signature = Signature((TensorSpec("x", "float32", (-1, 4)),), (TensorSpec("y", "string"),))
    document = mlflow_signature(signature).to_dict()
    assert json.loads(document["inputs"])[0]["tensor-spec"] == {"dtype": "float32", "shape": [-1, 4]}
    assert json.loads(document["outputs"])[0]["type"] == "string"


def test_what_is_not_registered_and_a_server_that_is_not_there_are_said(
    mlflow_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound, match="nothing 7 in MLflow"):
        publish_registered(RegisteredVersion(mlflow_address, "nothing", "7"), repository=tmp_path)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
        publish_registered(RegisteredVersion("http://127.0.0.1:9", "walk", "1"), repository=tmp_path)


def test_the_command_says_at_once_that_no_server_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """MLflow's own client tries for half a minute."""
    tidegate = Command(monkeypatch, capsys)
    done = tidegate("mlflow", "publish", "walk", "1", "--uri", "http://127.0.0.1:9", "--repository", tmp_path)
    assert done.returncode == 2
    assert "MLflow at http://127.0.0.1:9 does not answer" in done.stderr
    assert "start it, or name another by --uri or MLFLOW_TRACKING_URI" in " ".join(done.stderr.split())


def test_no_message_and_no_manifest_tells_the_password_in_an_address(
    registered: RegisteredVersion,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    secret = "http://u:secret@"
    write_signature(registered, {SERVING_DEFAULT: SIGNATURE})
    signing_in = replace(registered, version="1", uri=registered.uri.replace("http://", secret))
    published = publish_registered(signing_in, repository=tmp_path, sample=pd.DataFrame({"a": [0.5], "b": [0.0]}))
    assert published_before(signing_in, published.directory)
    assert "secret" not in f"{signing_in} {read_manifest(published.directory)[0].metadata}"
    for uri in (f"{secret}127.0.0.1:9", f"odd{secret}127.0.0.1:9"):
        with pytest.raises(TidegateError, match=r"//127\.0\.0\.1:9") as told:
            publish_registered(replace(registered, uri=uri), repository=tmp_path)
        assert "secret" not in told.value.message
    done = Command(monkeypatch, capsys)("mlflow", "publish", "walk", "1", "--uri", f"{secret}127.0.0.1:9")
    assert "MLflow at http://127.0.0.1:9 does not answer" in done.stderr


class Odd(BaseHTTPRequestHandler):
    """Sends on to where nobody is, or resets the connection; of a proxy's requests it wants somebody to sign in."""

    def do_GET(self) -> None:
        if self.path.startswith("/reset"):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())
            self.close_connection = True
            return
        self.send_response(407 if "://" in self.path else 302)
        self.send_header("Location", "http://127.0.0.1:9/login")
        self.end_headers()


@pytest.fixture(scope="module")
def odd() -> Iterator[str]:
    with http_server(Odd) as address:
        yield address


def is_refused(uri: str) -> bool:
    try:
        check_server_answers(uri)
    except Unavailable:
        return True
    return False


@pytest.mark.parametrize(
    ("proxy", "uri"),
    [
        ({"http_proxy": "socks5h://127.0.0.1:9"}, "http://127.0.0.1:9"),
        ({"ALL_PROXY": "http://{odd}"}, "http://nobody.invalid"),
        ({"http_proxy": "http://127.0.0.1:9"}, "http://{odd}"),
        ({}, "http://{odd}/moved"),
        ({}, "http://{odd}/reset"),
        ({}, "http://[::1"),
    ],
    ids=["by SOCKS", "by a proxy", "a proxy that is away", "sends on to a login", "resets", "no address"],
)
def test_only_a_server_that_is_surely_not_there_is_refused(
    odd: str, monkeypatch: pytest.MonkeyPatch, proxy: Mapping[str, str], uri: str
) -> None:
    """MLflow's own client may reach the others."""
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in proxy.items():
        monkeypatch.setenv(name, value.format(odd=odd))
    assert not is_refused(uri.format(odd=odd))


def test_what_is_no_address_of_a_server_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="MLflow's address 'nonsense' cannot be used: name its tracking server"):
        publish_registered(RegisteredVersion("nonsense", "walk", "1"), repository=tmp_path)


def test_a_password_that_makes_an_address_unreadable_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TidegateError, match="in a password / as %2F") as told:
        publish_registered(RegisteredVersion("http://anna:s3/cret@127.0.0.1", "walk", "1"), repository=tmp_path)
    assert "cret" not in told.value.message


@pytest.mark.parametrize("path", ["model-versions/get-download-uri", "runs/get"])
def test_a_server_that_fails_in_the_middle_is_said_to_be_away(
    registered: RegisteredVersion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with stand_between(registered.uri) as between:
        between.faulty = (f"/api/2.0/mlflow/{path}",)
        with pytest.raises(Unavailable, match=re.escape(between.url)):
            publish_registered(replace(registered, uri=between.url), repository=tmp_path)


def test_the_command_records_only_what_a_trusted_key_signed(
    client: Any,
    registered: RegisteredVersion,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tidegate = Command(monkeypatch, capsys)
    world = make_world(tmp_path / "own")
    _, directory = verdict_on(world, ())
    uri = ("--uri", registered.uri)
    done = tidegate("mlflow", "record", directory, *uri, "--key", world.public_key)
    assert done.returncode == 0, done.stderr
    assert "recorded PASS" in done.stdout
    other = make_world(tmp_path / "other")
    done = tidegate("mlflow", "record", directory, *uri, "--key", other.public_key)
    assert done.returncode == 1
    assert "1.verdict.json" in done.stderr
