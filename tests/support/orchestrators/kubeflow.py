"""kfp's local runner for tests: pipelines run as they do without a cluster, and what their tasks left is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfp import local


@dataclass(frozen=True)
class Runs:
    """Where kfp leaves what the tasks of its runs made."""

    root: Path

    def __post_init__(self) -> None:
        local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(self.root), raise_on_error=True)

    def tasks(self) -> set[str]:
        """The tasks of the newest run that came through."""
        return {file.parent.name for file in self._newest().glob("*/executor_output.json")}

    def file(self, task: str, artifact: str) -> Path:
        """The file of an artifact in the newest run."""
        return self._newest() / task / artifact

    def metadata(self, task: str) -> dict[str, dict[str, Any]]:
        """What a task of the newest run told kfp of its artifacts, by the artifact's name."""
        found = json.loads((self._newest() / task / "executor_output.json").read_text())["artifacts"]
        return {name: one["artifacts"][0]["metadata"] for name, one in found.items()}

    def _newest(self) -> Path:
        return max(self.root.iterdir(), key=lambda run: run.stat().st_mtime_ns)
