"""Fixtures that several rooms share because they are dear to make, one that watches over every test, and how tests run.

Where they run in several processes, tests of one file stay together, and so do all files that share something dear.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from tests.support.models.saved_models import build
from tests.support.neighbours.mlflow_server import mlflow_server
from tests.support.release.verdict_schema import verdicts_keep_to_their_schema

if TYPE_CHECKING:
    from tests.support.release.world import Endpoints, World

DEAR = ("mlflow_address", "saved_models")
"""Fixtures that take ten seconds and more and serve a whole session."""

set_hypothesis_home_dir(Path(__file__).resolve().parents[1] / "build" / "hypothesis")
settings.register_profile("tidegate", deadline=None, max_examples=100, database=None, print_blob=True)
settings.register_profile("repeatable", parent=settings.get_profile("tidegate"), derandomize=True)
settings.load_profile("tidegate")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known where pytest-xdist is not installed, as in the environments of `make test-extras`."""
    config.addinivalue_line("markers", "xdist_group(name): tests that run in the same process")


def pytest_collectstart() -> None:
    """Looks for no garbage until all is collected: next to nothing of what is imported and made meanwhile goes again.
    A process that only hands tests to others collects none."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the names, wherever this file was loaded
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Names the group that each test runs in, for pytest-xdist with `--dist loadgroup`."""
    groups: dict[Path, str] = {}
    for item in items:
        for dear in DEAR:
            if dear in getattr(item, "fixturenames", ()):
                groups[item.path] = dear
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups.get(item.path, item.path.as_posix())))


def pytest_collection_finish() -> None:
    """Looks for garbage from here on, and never among the modules and tests that are there by now."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Lets all of it go at the end: libraries complain of what is still there then."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of SavedModels, see `tests.support.models.saved_models`. Read only: copy what you change."""
    return build(tmp_path_factory.mktemp("saved_models"))


@pytest.fixture(scope="session")
def mlflow_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real MLflow server. Give models names of your own."""
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as address:
        yield address


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A repository of tiny models, keys and held-out rows, for the tests of one module."""
    from tests.support.release.world import make_world

    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def endpoints(world: World) -> Iterator[Endpoints]:
    """A real engine over the world, where it answers."""
    from tests.support.release.world import engine

    with engine(world) as endpoints:
        yield endpoints


@pytest.fixture(autouse=True, scope="session")
def _verdicts_keep_to_their_schema() -> Iterator[None]:
    with verdicts_keep_to_their_schema():
        yield
