"""The MLflow source beside a real MLflow server: alias or tag proposes, a verdict admits, an outage changes nothing."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import eventually
from tests.support.lifecycle.fakes import FakeTarget
from tests.support.models.versions import Validator, make_validator, publish

from tidegate_serving.admission import AdmissionRecords, VerdictAdmission
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.extra.factory import make_source
from tidegate_serving.sources.mlflow.registry import Proposal, Registry
from tidegate_serving.sources.mlflow.source import MlflowSource
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblems


class Models:
    """Registered models of a real server, by plain REST."""

    def __init__(self, address: str) -> None:
        self.address = address

    def call(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(
            f"{self.address}/api/2.0/mlflow/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def register(self, name: str, versions: int) -> None:
        self.call("registered-models/create", name=name)
        for _ in range(versions):
            self.call("model-versions/create", name=name, source="s3://bucket/anything")

    def alias(self, name: str, version: int) -> None:
        self.call("registered-models/alias", name=name, alias="champion", version=str(version))

    def tag(self, name: str, version: int, key: str, value: str) -> None:
        self.call("model-versions/set-tag", name=name, version=str(version), key=key, value=value)


class Place:
    """A repository, a validator and what a source was heard to want."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.validator: Validator = make_validator(folder)
        self.target = FakeTarget()
        self.problems = SourceProblems()

    def add(self, name: str, version: int, *, admitted: bool = True) -> Path:
        directory = publish(self.folder / "repository", name, version)
        if admitted:
            self.validator.sign(directory)
        return directory

    @contextmanager
    def source(self, models: dict[str, str]) -> Iterator[MlflowSource]:
        admission = VerdictAdmission([self.validator.public], AdmissionRecords(None))
        context = SourceContext(self.target, admission, Owners(), self.problems, self.folder / "state")
        table = {
            "uri": self.address,
            "repository": str(self.folder / "repository"),
            "models": models,
            "poll_seconds": 0.1,
            "timeout_seconds": 10,
        }
        source = make_source("mlflow", table, context)
        assert isinstance(source, MlflowSource)
        source.start()
        try:
            yield source
        finally:
            source.stop()

    def problem(self, name: str) -> str:
        found = self.problems.of(name)
        return "" if found is None else found.error.message


@pytest.fixture(scope="session")
def models(mlflow_address: str) -> Models:
    return Models(mlflow_address)


@pytest.fixture
def place(tmp_path: Path, mlflow_address: str) -> Place:
    return Place(tmp_path, mlflow_address)


def test_an_alias_that_moves_is_followed_once_a_verdict_admits_what_it_names(place: Place, models: Models) -> None:
    models.register("delays", 3)
    models.alias("delays", 1)
    place.add("delays", 1)
    second = place.add("delays", 2, admitted=False)
    with place.source({"delays": "alias:champion"}):
        assert place.target.numbers("delays") == [1]
        models.alias("delays", 2)
        eventually(lambda: "2.verdict.json" in place.problem("delays"))
        assert place.target.numbers("delays") == [2, 1]
        assert [one.error is None for one in place.target.wanted["delays"]] == [False, True]
        place.validator.sign(second)
        eventually(lambda: place.target.numbers("delays") == [2])
        eventually(lambda: place.problem("delays") == "")
        models.alias("delays", 3)
        eventually(lambda: "proposed by MLflow and was not published" in place.problem("delays"))
        assert place.target.numbers("delays") == [3, 2]


def test_the_newest_version_with_a_tag_is_proposed(place: Place, models: Models) -> None:
    models.register("prices", 3)
    for version in (1, 2, 3):
        place.add("prices", version)
    registry = Registry(models.address, 10.0)
    with pytest.raises(NotFound, match="carries tag stage=live"):
        registry.proposed("prices", Proposal.parse("tag:stage=live"))
    models.tag("prices", 1, "stage", "live")
    models.tag("prices", 2, "stage", "live")
    models.tag("prices", 3, "stage", "tried")
    with place.source({"prices": "tag:stage=live"}):
        assert place.target.numbers("prices") == [2]


def test_without_the_registry_the_last_good_version_is_wanted_even_after_a_restart(
    place: Place, models: Models
) -> None:
    models.register("lasting", 1)
    models.alias("lasting", 1)
    place.add("lasting", 1)
    with place.source({"lasting": "alias:champion"}):
        assert place.target.numbers("lasting") == [1]
    place.address, place.target = "http://127.0.0.1:9", FakeTarget()
    with place.source({"lasting": "alias:champion"}):
        assert place.target.numbers("lasting") == [1]
        assert "does not answer" in place.problem("lasting")
    shutil.rmtree(place.folder / "repository" / "lasting" / "1")
    with place.source({"lasting": "alias:champion"}):
        (gone,) = place.target.wanted["lasting"]
        assert gone.error is not None
        assert "was not published" in gone.error.message


def test_an_alias_that_is_not_set_is_a_problem_of_its_model_alone(place: Place, models: Models) -> None:
    models.register("nobody", 1)
    models.register("somebody", 1)
    models.alias("somebody", 1)
    place.add("somebody", 1)
    with place.source({"nobody": "alias:champion", "somebody": "alias:champion"}):
        assert place.target.numbers("somebody") == [1]
        assert "champion" in place.problem("nobody")
        assert place.problem("somebody") == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"models": {}}, "names no models"),
        ({"models": {"m": "champion"}}, "proposal 'champion' is unknown"),
        ({"repository": "models"}, "is relative"),
        ({"uri": "sqlite:///mlflow.db"}, "write the address of its server"),
        ({"poll_second": 1}, "did you mean poll_seconds"),
    ],
)
def test_a_table_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    table = {"uri": "http://127.0.0.1:9", "repository": str(tmp_path), "models": {"m": "alias:x"}, **changes}
    context = SourceContext(FakeTarget(), VerdictAdmission([], AdmissionRecords(None)), Owners(), SourceProblems())
    with pytest.raises((InvalidInput, TidegateError), match=words):
        make_source("mlflow", table, context)
