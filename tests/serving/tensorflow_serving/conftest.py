"""One model server over the zoo of SavedModels, for all tests of this folder that only ask it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.models.zoo_server import Zoo, zoo_server


@pytest.fixture(scope="package")
def zoo(tmp_path_factory: pytest.TempPathFactory, saved_models: Path) -> Iterator[Zoo]:
    """See `tests.support.models.zoo_server`. Tests must not depend on what others asked."""
    with zoo_server(tmp_path_factory.mktemp("zoo"), saved_models) as server:
        yield server
