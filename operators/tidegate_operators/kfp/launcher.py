"""`python -m tidegate_operators.kfp.launcher COMPONENT --executor-input JSON`: what a container component runs.

The JSON is Kubeflow Pipelines' own ExecutorInput, which it puts in place of `{{$}}`: parameters, artifacts, and where
outputs go. The image needs no kfp for this.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate_operators.kfp.tasks import TASKS, run

_MOUNTS = {"gs://": "/gcs/", "s3://": "/s3/", "minio://": "/minio/"}


@dataclass(slots=True)
class LaunchedArtifact:
    """One artifact as KFP names it; `path` is where its launcher puts the files of an object store."""

    name: str
    uri: str
    path: str
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> LaunchedArtifact:
        """From a RuntimeArtifact."""
        uri = document.get("uri", "")
        path = document.get("customPath") or next(
            (folder + uri.removeprefix(scheme) for scheme, folder in _MOUNTS.items() if uri.startswith(scheme)), uri
        )
        return cls(document.get("name", ""), uri, path, dict(document.get("metadata") or {}))


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one component; ends with status 1 and a sentence where the step said no."""
    parser = argparse.ArgumentParser(prog="tidegate_operators.kfp.launcher", description=__doc__)
    parser.add_argument("component", choices=sorted(TASKS))
    parser.add_argument("--executor-input", required=True, type=json.loads)
    told = parser.parse_args(arguments)
    inputs, outputs = (told.executor_input.get(key) or {} for key in ("inputs", "outputs"))
    made = _artifacts(outputs)
    paths = {name: one["outputFile"] for name, one in (outputs.get("parameters") or {}).items()}
    for artifact in made.values():
        Path(artifact.path).parent.mkdir(parents=True, exist_ok=True)
    try:
        run(told.component, {**(inputs.get("parameterValues") or {}), **_artifacts(inputs), **made, **paths})
    finally:
        _write_output(made, outputs.get("outputFile"))


def _artifacts(side: Mapping[str, Any]) -> dict[str, LaunchedArtifact]:
    lists = {name: one.get("artifacts") for name, one in (side.get("artifacts") or {}).items()}
    return {name: LaunchedArtifact.of(several[0]) for name, several in lists.items() if several}


def _write_output(made: Mapping[str, LaunchedArtifact], file: str | None) -> None:
    """KFP's ExecutorOutput, which brings the artifacts' metadata."""
    if file is None:
        return
    shown = {
        name: {"artifacts": [{"name": one.name, "uri": one.uri, "metadata": one.metadata}]}
        for name, one in made.items()
    }
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"artifacts": shown}), encoding="utf-8")


if __name__ == "__main__":
    main()
