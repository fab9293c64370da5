"""Model repositories on a real S3 server: a verdict admits, an engine serves, and goes on when the store is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import fsspec
import numpy as np
import pytest
from tests.support.eventually import eventually
from tests.support.lifecycle.fakes import FakeTarget
from tests.support.models.versions import adding, make_validator, publish

from tidegate_serving.admission import AdmissionRecords, VerdictAdmission
from tidegate_serving.client import Client
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.servable import State
from tidegate_serving.engine import Engine
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.extra.factory import make_source
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblems

X = np.array([1.0], np.float32)
KEYS = {"key": "testing", "secret": "testing"}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def bucket(s3: str, name: str) -> Any:
    files = fsspec.filesystem("s3", endpoint_url=s3, skip_instance_cache=True, use_listings_cache=False, **KEYS)
    files.mkdir(name)
    return files


def lose_everything(s3: str) -> None:
    """All buckets at once. Files removed one by one would be versions that are taken out, the last of them too."""
    urlopen(Request(f"{s3}/moto-api/reset", method="POST")).close()


def table(s3: str, name: str, cache: Path, **more: Any) -> dict[str, Any]:
    options = {"endpoint_url": s3, **KEYS}
    return {"url": f"s3://{name}/models", "cache": str(cache), "poll_seconds": 0.1, "options": options, **more}


def test_versions_in_s3_are_wanted_once_a_verdict_admits_them(s3: str, tmp_path: Path) -> None:
    files, validator = bucket(s3, "gate"), make_validator(tmp_path)
    target, problems = FakeTarget(), SourceProblems()
    admission = VerdictAdmission([validator.public], AdmissionRecords(None))
    context = SourceContext(target, admission, Owners(), problems)
    for version in (1, 2):
        directory = publish(tmp_path / "made", "m", version)
        files.put(str(directory), f"gate/models/m/{version}", recursive=True)
    files.put(str(validator.sign(tmp_path / "made" / "m" / "1")), "gate/models/m/1.verdict.json")
    source = make_source("object_store", table(s3, "gate", tmp_path / "cache"), context)
    source.start()
    try:
        assert target.numbers("m") == [1]
        problem = problems.of("m")
        assert problem is not None
        assert "2.verdict.json" in problem.error.message
        files.put(str(validator.sign(tmp_path / "made" / "m" / "2")), "gate/models/m/2.verdict.json")
        eventually(lambda: target.numbers("m") == [2])
        eventually(lambda: problems.of("m") is None)
    finally:
        source.stop()


def test_an_engine_serves_from_s3_and_survives_the_loss_of_it(s3: str, tmp_path: Path) -> None:
    files = bucket(s3, "live")
    files.put(str(publish(tmp_path / "made", "m", 1, adding(1))), "live/models/m/1", recursive=True)
    config = EngineConfig(
        grpc_address="127.0.0.1:0",
        rest_address="",
        control_address="",
        allow_unverified=True,
        sources={"object_store": table(s3, "live", tmp_path / "cache")},
    )
    with Engine(config) as engine, Client(engine.addresses.grpc) as client:
        assert client.predict("m", {"x": X}).outputs["y"].tolist() == [2.0]
        files.put(str(publish(tmp_path / "made", "m", 2, adding(2))), "live/models/m/2", recursive=True)
        engine.wait_until("m", 2, State.AVAILABLE, 20.0)
        eventually(lambda: client.predict("m", {"x": X}).outputs["y"].tolist() == [3.0])
        lose_everything(s3)
        eventually(lambda: any("found nothing there" in note for note in _problems(engine)))
        assert client.predict("m", {"x": X}).version == 2


def _problems(engine: Engine) -> list[str]:
    return [servable.source_problem for servable in engine.status().servables]
