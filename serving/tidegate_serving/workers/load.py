"""Loads a version into workers, for the version loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import tidegate_native as native

from tidegate_serving.contract.manifest import Manifest, manifest_of
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import Answer, LoadedVersion
from tidegate_serving.platforms.memory_need import together
from tidegate_serving.platforms.stages.description import NAME as STAGES
from tidegate_serving.platforms.stages.description import Stage, read_stages
from tidegate_serving.platforms.stages.platform import checked_signature, only_signature
from tidegate_serving.platforms.stages.servable import LoadedStage, StagesServable
from tidegate_serving.platforms.unpublished import verify_described
from tidegate_serving.platforms.warm_up.runner import warm_up
from tidegate_serving.workers.gauges import WorkerGauges
from tidegate_serving.workers.process import Worker
from tidegate_serving.workers.task import WorkerTask
from tidegate_serving.workers.version_workers import Staff, VersionWorkers


def load_in_workers(id: ServableId, task: WorkerTask, staff: Staff, gauges: WorkerGauges) -> LoadedVersion:
    """The version, loaded and warm in all its workers. Raises what its load raises, ModelFailed where it ends its
    process, InvalidInput for a place that there is not."""
    staff.place.check()
    manifest = manifest_of(task.manifest.encode(), str(task.directory))
    if manifest.platform == STAGES:
        return _Stages(id, task, manifest, staff, gauges).load()
    workers = VersionWorkers(id, task, staff, gauges)
    description = workers.load()
    servable = workers if description.definitions is None else _Described(workers, description.definitions)
    return LoadedVersion(description.manifest, servable, description.held)


class _Stages:
    """Brings up workers for each stage of a version."""

    def __init__(
        self, id: ServableId, task: WorkerTask, manifest: Manifest, staff: Staff, gauges: WorkerGauges
    ) -> None:
        self._id = id
        self._task = task
        self._manifest = manifest
        self._staff = staff
        self._gauges = gauges
        self._loaded: list[LoadedStage] = []

    def load(self) -> LoadedVersion:
        """All of them, one after the other, and warm. Files outside the stages' folders are verified here."""
        verify_described(self._manifest, self._task.directory)
        stages = read_stages(self._task.directory, self._manifest)
        try:
            held = together([self._bring(stage) for stage in stages.all])
            signature = checked_signature(self._manifest, stages, self._loaded)
            manifest = replace(self._manifest, signatures={SERVING_DEFAULT: signature})
            version = LoadedVersion(manifest, StagesServable(self._id, self._loaded, signature), held)
            warm_up(version, self._task.directory, self._task.warm_up())
            return version
        except BaseException:
            for one in self._loaded:
                one.servable.close()
            raise

    def _bring(self, stage: Stage) -> Mapping[str, int]:
        """Loads one stage; the bytes that its workers hold, by device."""
        manifest = stage.manifest(self._manifest)
        directory = self._task.directory / stage.folder
        task = WorkerTask(directory, manifest.to_bytes().decode(), self._task.options, stage=stage.name)
        staff = replace(self._staff, count=stage.workers or self._staff.count)
        workers = VersionWorkers(self._id, task, staff, self._gauges)
        description = workers.load()
        try:
            signature = only_signature(stage, description.manifest)
        except BaseException:
            workers.close()
            raise
        self._loaded.append(LoadedStage(stage, signature, workers))
        return description.held


class _Described:
    """Workers whose model describes its signatures itself."""

    def __init__(self, workers: VersionWorkers, definitions: Any) -> None:
        self._workers = workers
        self._definitions = definitions

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Answer | Iterator[Answer]:
        """As the workers."""
        return self._workers.predict(signature, inputs)

    @property
    def idle(self) -> native.IdleWorkers:
        """As the workers."""
        return self._workers.idle

    def told(
        self, worker: Worker, text: bytes, outputs: Mapping[str, Array], signature: str, inputs: Mapping[str, Array]
    ) -> Answer:
        """As the workers."""
        return self._workers.told(worker, text, outputs, signature, inputs)

    def died(self, worker: Worker, nonsense: str | None, signature: str, inputs: Mapping[str, Array]) -> Answer:
        """As the workers."""
        return self._workers.died(worker, nonsense, signature, inputs)

    def signature_defs(self) -> Any:
        """A `tensorflow.serving.SignatureDefMap`."""
        return self._definitions

    def close(self) -> None:
        """Ends all workers."""
        self._workers.close()
