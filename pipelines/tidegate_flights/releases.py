"""Releases versions of the demo through the Airflow DAG and reads back what its steps left on disk.

What a gate said comes from the signed verdict, what the canary said from its file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from tidegate_flights.airflow_runner import DagResult
from tidegate_flights.engine import serving_version
from tidegate_flights.folders import Folders
from tidegate_flights.mistakes import Mistake
from tidegate_flights.story import Story
from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict, read_trust, trusted_verdict
from tidegate_serving.contract.errors import NotFound, Refused
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


Ended = Callable[[int, datetime, DagResult], None]
"""Hears which version's release ended, when it began, and how it went."""


class Releases:
    """Runs `dags/flights_release.py` for one version after another against one engine, and tells how each went."""

    def __init__(self, runner: DagRunner, folders: Folders, control: str, story: Story, ended: Ended) -> None:
        self._runner, self._folders, self._control, self._story = runner, folders, control, story
        self._ended = ended
        host, _, port = control.rpartition(":")
        self._connections = {CONNECTION: {"conn_type": "tidegate", "host": host, "port": int(port)}}

    def release(self, version: int) -> None:
        """Runs the DAG for a version that must come through. Refused, with the DAG's sentence, where it does not."""
        log = self._folders.airflow / "airflow.log"
        self._story.note(f"Airflow runs validate, serve, canary, promote, for a minute or two: {log} grows meanwhile")
        result = self._run(version)
        if not result.ok:
            raise Refused(
                f"version {version} was to be released, but task {result.failed_task} failed: {result.reason}"
            )
        for gate in self._verdict(version).gates:
            self._story.good(f"gate {gate.gate}: {gate.outcome.value}. {gate.sentence}")
        serving = serving_version(self._control)
        if serving != version:
            raise Refused(f"version {version} was released, but version {serving} serves")
        seconds = f"({result.seconds:.0f} s in Airflow)"
        self._story.good(f"version {version} passed its gates and its canary and is stable {seconds}")

    def try_candidates(self, candidates: Mapping[int, Mistake], titles: Mapping[int, str]) -> list[Refusal]:
        """Runs the DAG for candidates with mistakes, which the gates must refuse, and for the honest retrain.

        Returns the refusals in order. A candidate that no gate refused is told and left out.
        """
        refusals = []
        for version, kind in candidates.items():
            self._story.note(f"version {version}: {titles[version]}")
            if kind is Mistake.NONE:
                self.release(version)
            elif (refusal := self._try(version)) is not None:
                refusals.append(refusal)
        return refusals

    def canary(self, version: int) -> dict[str, Any]:
        """What the canary counted."""
        path = report_directory(self._folders.version(version)) / CANARY_FILE
        document: dict[str, Any] = json.loads(path.read_text())
        return {key: document[key] for key in ("shadowed", "compared", "max_difference")}

    def _run(self, version: int) -> DagResult:
        conf = {
            "directory": str(self._folders.version(version)),
            "held_out": str(self._folders.held_out),
            "private_key": str(self._folders.private_key),
            "training": str(self._folders.training(version)),
        }
        begun = datetime.now(UTC)
        result = self._runner.run(dag_file(), conf, self._connections)
        self._ended(version, begun, result)
        return result

    def _verdict(self, version: int) -> Verdict:
        """What the gates said, its signature checked."""
        ring = read_trust([self._folders.public_key])
        return trusted_verdict(verdict_path(self._folders.version(version)), ring).verdict

    def _try(self, version: int) -> Refusal | None:
        """Why a gate refused the version. Refused where the version that serves is another one afterwards."""
        before = serving_version(self._control)
        result = self._run(version)
        after = serving_version(self._control)
        if before is None or after != before:
            raise Refused(f"version {before} served before version {version} was tried, and version {after} after that")
        verdict = self._verdict(version)
        if result.ok or verdict.allowed:
            self._story.bad(f"version {version} was to be refused by a gate: {result.reason or 'it was released'}")
            return None
        refusal = refusal_of(verdict)
        self._story.refused(f"version {version} is refused by the {refusal.gate} gate: {refusal.sentence}")
        self._story.good(f"version {after} keeps serving")
        return refusal


def dag_file() -> Path:
    """The release's DAG: beside this package in a checkout, inside it where it was installed from a wheel."""
    package = Path(__file__).resolve().parent
    for folder in (package, package.parents[1]):
        if (folder / DAG_FILE).is_file():
            return folder / DAG_FILE
    raise NotFound(f"{DAG_FILE} is neither in {package} nor in {package.parents[1]}: install tidegate[demo] again")


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
