"""Fixtures that several rooms share because they are dear to make."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.saved_models import build


@pytest.fixture(scope="session")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of SavedModels, see `tests.support.saved_models`. Read only: copy what you change."""
    return build(tmp_path_factory.mktemp("saved_models"))
