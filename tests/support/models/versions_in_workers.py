"""Versions in worker processes, without an engine, and what they answer to one number."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.platforms.loader import ask
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.workers.gauges import WorkerGauges
from tidegate_serving.workers.task import WorkerTask
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

Load = Callable[[str, Draft, Staff], VersionWorkers]


@contextlib.contextmanager
def versions_in_workers(root: Path) -> Iterator[Load]:
    """Publishes version 1 of a model under `root` and loads it; all that were begun are closed in the end."""
    with contextlib.ExitStack() as stack:

        def load(name: str, draft: Draft, staff: Staff) -> VersionWorkers:
            directory = publish(root, name, 1, draft)
            task = WorkerTask(directory, (directory / "manifest.json").read_text(), PlatformOptions())
            workers = VersionWorkers(ServableId(name, 1), task, staff, WorkerGauges())
            stack.callback(workers.close)
            workers.load()
            return workers

        yield load


def asked(workers: VersionWorkers, x: float) -> float:
    """`y` of a row with input `x`, float32."""
    return float(ask(workers, SERVING_DEFAULT, {"x": np.array([x], np.float32)}).outputs["y"][0])
