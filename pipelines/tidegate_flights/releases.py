"""Releases versions of the demo through the Airflow DAG and reads back what its steps left on disk.

Stages ask for a version number; the DAG run happens in the runner's process. What a gate said comes from the signed
verdict, what the canary said from its file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tidegate_flights.airflow_runner import DagResult
from tidegate_flights.folders import Folders
from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict, read_trust, trusted_verdict
from tidegate_serving.contract.errors import NotFound
from tidegate_serving.contract.repository import report_directory, verdict_path

DAG_FILE = Path("dags") / "flights_release.py"
CONNECTION = "tidegate_default"
CANARY_FILE = "canary.json"
_ALLOWING = (Outcome.PASS, Outcome.WARN)


@dataclass(frozen=True)
class Refusal:
    """What kept a version out: the first gate that denied, the feature and factor it names, and its sentence."""

    version: int
    gate: str
    sentence: str
    feature: str | None = None
    factor: float | None = None
    example: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what the gate did not name."""
        named = {"feature": self.feature, "factor": self.factor, "input": self.example}
        found = {key: value for key, value in named.items() if value is not None}
        return {"version": self.version, "gate": self.gate, **found, "sentence": self.sentence}


class DagRunner(Protocol):
    """Whatever runs a DAG file to its end, such as an `AirflowRunner`."""

    def run(
        self, dag_file: Path, conf: Mapping[str, Any], connections: Mapping[str, Mapping[str, Any]] | None = None
    ) -> DagResult:
        """How the run ended."""


class Releases:
    """Runs `dags/flights_release.py` for one version after another against one engine."""

    def __init__(self, runner: DagRunner, folders: Folders, control: str) -> None:
        self._runner, self._folders = runner, folders
        host, _, port = control.rpartition(":")
        self._connections = {CONNECTION: {"conn_type": "tidegate", "host": host, "port": int(port)}}

    def run(self, version: int) -> DagResult:
        """One DAG run to its end."""
        conf = {
            "directory": str(self._folders.version(version)),
            "held_out": str(self._folders.held_out),
            "private_key": str(self._folders.private_key),
            "training": str(self._folders.training(version)),
        }
        return self._runner.run(dag_file(), conf, self._connections)

    def verdict(self, version: int) -> Verdict:
        """What the gates said, its signature checked."""
        ring = read_trust([self._folders.public_key])
        return trusted_verdict(verdict_path(self._folders.version(version)), ring).verdict

    def refusal(self, version: int) -> Refusal | None:
        """Why the gates did not admit a version; None where they did."""
        verdict = self.verdict(version)
        return None if verdict.allowed else refusal_of(verdict)

    def canary(self, version: int) -> dict[str, Any]:
        """What the canary counted."""
        path = report_directory(self._folders.version(version)) / CANARY_FILE
        document: dict[str, Any] = json.loads(path.read_text())
        return {key: document[key] for key in ("shadowed", "compared", "max_difference")}


def dag_file() -> Path:
    """The DAG in the project's folder. NotFound where the demo does not run from a checkout."""
    path = Path(__file__).resolve().parents[3] / DAG_FILE
    if not path.is_file():
        raise NotFound(f"{path} is missing: run the demo from a checkout of the project")
    return path


def refusal_of(verdict: Verdict) -> Refusal:
    """The first gate that denied, and in it the first finding that did."""
    gate = next((gate for gate in verdict.gates if gate.outcome not in _ALLOWING), None)
    if gate is None:
        return Refusal(verdict.id.version, "decision", verdict.sentence)
    finding = _worst(gate)
    cause = (finding.cause or {}) if finding else {}
    return Refusal(
        version=verdict.id.version,
        gate=gate.gate,
        sentence=gate.sentence,
        feature=str(cause.get("feature", finding.subject)) if finding and gate.gate != "robustness" else None,
        factor=_number(cause.get("factor")),
        example=_input(finding.example) if finding and finding.example and gate.gate == "robustness" else None,
    )


def _worst(gate: GateResult) -> Finding | None:
    denying = [finding for finding in gate.findings if finding.outcome not in _ALLOWING]
    return max(denying, key=lambda finding: finding.cause is not None, default=None)


def _input(example: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was changed in a row that the model survives, where the gate found that out; else the whole row."""
    changed: Mapping[str, Any] = example.get("changed") or example
    return changed


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
