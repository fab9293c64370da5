"""Tells OpenLineage of a task: the data and the version that it reads, what it makes of them, and the verdict.

Airflow's OpenLineage provider asks the operators, where it is installed and configured. A version is the dataset of its
directory; what ordinary clients get is the dataset NAME of `tidegate://CONNECTION`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate_operators.airflow.lineage import Lineage


class WithLineage:
    """For operators: they say in `lineage` what they read and make, by their rendered fields."""

    def lineage(self) -> Lineage:
        """What the task reads and makes if it succeeds."""
        raise NotImplementedError

    def get_openlineage_facets_on_start(self) -> Any:
        """What the task reads; Airflow's OpenLineage provider calls it."""
        return _told(replace(self.lineage(), made=None, served=None, judges=False))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """What the task has read and made."""
        return _told(self.lineage())

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        """What the task has read, and the verdict where one denied."""
        return _told(replace(self.lineage(), made=None, served=None))


def _told(lineage: Lineage) -> Any:
    from tidegate_operators.airflow.facets import to_openlineage

    return to_openlineage(lineage)
