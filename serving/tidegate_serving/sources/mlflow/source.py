"""The MLflow source: aspires the versions that the registry proposes, once a verdict admits them.

Versions are published in a model repository under the registry's version numbers. A proposed version that is not
admitted leaves the last good one serving.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, NotFound, Tampered, TidegateError
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId, check_name
from tidegate_serving.files.state import keep
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.mlflow.registry import Proposal, Registry
from tidegate_serving.sources.polling import Poller
from tidegate_serving.sources.problems import reported
from tidegate_serving.sources.target import AspiredVersion
from tidegate_serving.typed_config import read_config

NAME = "MLflow registry"
MEMORY_FILE = "mlflow-source.json"
_FORMAT_VERSION = "1"


@dataclass(frozen=True, slots=True)
class MlflowOptions:
    """The table `[sources.mlflow]`.

    uri: the tracking server.
    repository: where versions are published, ROOT/NAME/VERSION with the registry's numbers (`tidegate publish`).
    models: by registered model what proposes a version, `alias:NAME` or `tag:KEY=VALUE`.
    poll_seconds: how often the registry is asked; a webhook that got lost costs no more than this.
    timeout_seconds: how long one answer may take.
    """

    uri: str
    repository: Path
    models: Mapping[str, str]
    poll_seconds: float = 5.0
    timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not self.repository.is_absolute():
            raise InvalidInput(f"repository {self.repository} of the MLflow source is relative: write it from the root")
        if not self.models:
            raise InvalidInput('the MLflow source names no models: write models = { flights = "alias:champion" }')
        if self.poll_seconds <= 0 or self.timeout_seconds <= 0:
            raise InvalidInput("poll_seconds and timeout_seconds of the MLflow source must be above 0")
        for name, text in self.models.items():
            check_name(name)
            Proposal.parse(text)


class MlflowSource:
    """A `Source` over a model registry; each model is looked up and aspired on its own."""

    def __init__(self, options: MlflowOptions, context: SourceContext) -> None:
        self._options = options
        self._context = context
        self._registry = Registry(options.uri, options.timeout_seconds)
        self._good = _Memory(context.state_directory)
        self._poller = Poller(self._look)

    def start(self) -> None:
        """Aspires the last good versions at once, then asks the registry again and again."""
        for name in self._options.models:
            number = self._good.get(name)
            if number is not None:
                with reported(self._context.problems, name, NAME):
                    self._tell(name, number)
        self._poller.start()
        self._poller.add(self._options.models)
        self._poller.wait_idle(self._options.models, self._options.timeout_seconds)

    def stop(self) -> None:
        """Never calls its target again."""
        self._poller.stop()

    def names(self) -> frozenset[str]:
        """The models that the table names."""
        return frozenset(self._options.models)

    def _look(self, name: str) -> float | None:
        with reported(self._context.problems, name, NAME):
            self._tell(name, self._registry.proposed(name, Proposal.parse(self._options.models[name])))
        return self._options.poll_seconds

    def _tell(self, name: str, number: int) -> None:
        """Aspires the proposed version; where it cannot serve, the last good one too, and then raises why."""
        proposed = self._version(ServableId(name, number))
        versions = [proposed]
        good = self._good.get(name)
        if proposed.error is None:
            self._good.set(name, number)
        elif good is not None and good != number:
            versions.append(self._version(ServableId(name, good)))
        self._context.owners.claim(name, NAME)
        self._context.target.set_aspired_versions(name, versions)
        if proposed.error is not None:
            raise proposed.error

    def _version(self, id: ServableId) -> AspiredVersion[VersionReference]:
        directory = version_directory(self._options.repository, id)
        try:
            manifest, digest = read_manifest(directory)
            if manifest.id != id:
                raise InvalidInput(f"{directory} holds {manifest.id}, not {id}: publish it under its own number")
            self._context.admission.check(directory, manifest, digest)
        except NotFound as error:
            where = f"{id} is proposed by MLflow and was not published: `tidegate publish` it to {directory}"
            return AspiredVersion(id, None, error if directory.exists() else NotFound(where))
        except TidegateError as error:
            return AspiredVersion(id, None, error)
        return AspiredVersion(id, VersionReference(id.version, directory, digest, manifest.platform))


class _Memory:
    """The last version of each model that was admitted; kept on disk where there is a state directory."""

    def __init__(self, state_directory: Path | None) -> None:
        self._path = None if state_directory is None else state_directory / MEMORY_FILE
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        if self._path is not None and self._path.exists():
            self._numbers = _read(self._path)

    def get(self, name: str) -> int | None:
        return self._numbers.get(name)

    def set(self, name: str, number: int) -> None:
        with self._lock:
            if self._numbers.get(name) == number:
                return
            self._numbers[name] = number
            if self._path is not None:
                document = {"format": f"tidegate.mlflow-source/{_FORMAT_VERSION}", "good": self._numbers}
                keep(self._path, (json.dumps(document, indent=1) + "\n").encode())


def _read(path: Path) -> dict[str, int]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        check_format(document, kind="mlflow-source", version=_FORMAT_VERSION, where=str(path))
        return {str(name): int(number) for name, number in document["good"].items()}
    except MALFORMED as error:
        raise Tampered(f"{path} cannot be used ({error}): remove it, the registry is asked again") from error


def make_source(table: Mapping[str, Any], context: SourceContext) -> MlflowSource:
    """From the config's table. InvalidInput for a key or value that cannot be."""
    options = read_config(MlflowOptions, table, "[sources.mlflow]", texts=True)
    return MlflowSource(options, context)
