"""A task of a container component as Kubeflow runs it: our launcher as a process, told by an ExecutorInput."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tidegate_operators.kfp.components import container_components
from tidegate_serving.files import remove_folder


class Task:
    """One task of a component in a run, in a folder as KFP lays it out: artifacts have places of their own, output
    parameters the same in every pod, from where they are collected once it ends."""

    def __init__(self, component: str, folder: Path, run: str = "run") -> None:
        self.component, self.folder = component, folder / run / component
        self.said = ""
        self._outputs = folder / "outputs"
        self._collected: dict[str, str] = {}

    def document(self, parameters: dict[str, Any], artifacts: dict[str, Path]) -> str:
        """The ExecutorInput; every number is a float there."""
        outputs = container_components().all()[self.component].component_spec.outputs or {}
        files = {name: one for name, one in outputs.items() if "@" not in str(one.type)}
        made = outputs.keys() - files.keys()
        return json.dumps(
            {
                "inputs": {
                    "parameterValues": {
                        name: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
                        for name, value in parameters.items()
                    },
                    "artifacts": {
                        name: {"artifacts": [{"name": name, "uri": str(path)}]} for name, path in artifacts.items()
                    },
                },
                "outputs": {
                    "parameters": {name: {"outputFile": str(self._outputs / name)} for name in files},
                    "artifacts": {
                        name: {"artifacts": [{"name": name, "uri": str(self.folder / name), "metadata": {}}]}
                        for name in made
                    },
                    "outputFile": str(self.folder / "output.json"),
                },
            }
        )

    def __call__(self, parameters: dict[str, Any], artifacts: dict[str, Path] | None = None) -> int:
        """Runs it to its end in a new pod; the exit status."""
        remove_folder(self._outputs)
        command = self.command(parameters, artifacts)
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        self.said = done.stderr
        self._collected = {path.name: path.read_text() for path in self._outputs.glob("*")}
        return done.returncode

    def command(self, parameters: dict[str, Any], artifacts: dict[str, Path] | None = None) -> list[str]:
        """What the container runs, with KFP's placeholder filled in."""
        container = container_components().all()[self.component].component_spec.implementation.container
        filled = [self.document(parameters, artifacts or {}) if arg == "{{$}}" else arg for arg in container.args]
        return [sys.executable, *container.command[1:], *filled]

    def parameter(self, name: str) -> str:
        return self._collected[name]

    def metadata(self, artifact: str) -> dict[str, Any]:
        found = json.loads((self.folder / "output.json").read_text())["artifacts"][artifact]
        metadata: dict[str, Any] = found["artifacts"][0]["metadata"]
        return metadata
