"""Runs what the flights DAG runs, step by step in this process: for tests of the demo that need no Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.progress_log import ProgressLog

from tidegate_flights.airflow_runner import DagResult
from tidegate_operators.steps import CanaryRule, Evidence
from tidegate_pipelines.release import Release, release
from tidegate_serving.contract.errors import TidegateError


class DirectRunner:
    """In place of an AirflowRunner; a refusal becomes a failed run with the same sentence."""

    def __init__(self, policy: Path | None = None) -> None:
        self._policy = policy

    def run(
        self, dag_file: Path, conf: Mapping[str, Any], connections: Mapping[str, Mapping[str, Any]] | None = None
    ) -> DagResult:
        assert dag_file.name == "flights_release.py"
        assert connections is not None
        (engine,) = connections.values()
        request = Release(
            directory=Path(conf["directory"]),
            evidence=Evidence(Path(conf["held_out"]), training=Path(conf["training"]), policy=self._policy),
            private_key=Path(conf["private_key"]),
            control=f"{engine['host']}:{engine['port']}",
            rule=CanaryRule(pairs=100, within_seconds=60),
        )
        heard = ProgressLog()
        try:
            release(request, heard)
        except TidegateError as error:
            return DagResult("failed", heard.of("release")[-1], error.message)
        return DagResult("success")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""
