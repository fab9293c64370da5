"""What tests of both orchestrators share: the process that their tasks are forks of, which imports Airflow once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.orchestrators.killer import Killer


@pytest.fixture(scope="session")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    """Runs tasks, and kills some. Variables that a task needs go with it, as its `machine`."""
    from tests.support.orchestrators.killer import Killer

    one = Killer("tests.support.orchestrators.killed_tasks", {"AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow"))})
    yield one
    one.close()
