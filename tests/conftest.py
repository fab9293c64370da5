"""Fixtures that several rooms share because they are dear to make, and one that watches over every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.mlflow_server import mlflow_server
from tests.support.saved_models import build
from tests.support.verdict_schema import verdicts_keep_to_their_schema

if TYPE_CHECKING:
    from tests.support.releases import Endpoints, World


@pytest.fixture(scope="session")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of SavedModels, see `tests.support.saved_models`. Read only: copy what you change."""
    return build(tmp_path_factory.mktemp("saved_models"))


@pytest.fixture(scope="session")
def mlflow_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real MLflow server. Give models names of your own."""
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as address:
        yield address


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A repository of tiny models, keys and held-out rows, for the tests of one module."""
    from tests.support.releases import make_world

    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def endpoints(world: World) -> Iterator[Endpoints]:
    """A real engine over the world, where it answers."""
    from tests.support.releases import engine

    with engine(world) as endpoints:
        yield endpoints


@pytest.fixture(autouse=True, scope="session")
def _verdicts_keep_to_their_schema() -> Iterator[None]:
    with verdicts_keep_to_their_schema():
        yield
