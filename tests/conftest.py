"""Fixtures that several rooms share because they are dear to make, and one that watches over every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mlflow_server import mlflow_server
from tests.support.saved_models import build
from tests.support.verdict_schema import verdicts_keep_to_their_schema


@pytest.fixture(scope="session")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of SavedModels, see `tests.support.saved_models`. Read only: copy what you change."""
    return build(tmp_path_factory.mktemp("saved_models"))


@pytest.fixture(scope="session")
def mlflow_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real MLflow server. Give models names of your own."""
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as address:
        yield address


@pytest.fixture(autouse=True, scope="session")
def _verdicts_keep_to_their_schema() -> Iterator[None]:
    with verdicts_keep_to_their_schema():
        yield
