"""Runs the gates over one version: gathers the evidence, asks each gate, and has `decision` make the verdict.

Operators and the command line call `validate` with a `ValidationRequest`; the unsigned verdict goes back to be signed.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate_serving.admission.verdict import GateResult, Outcome, Verdict
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest, read_manifest, verify_files
from tidegate_validation import gate_runs
from tidegate_validation.decision import Subject, decide
from tidegate_validation.policy import Policy
from tidegate_validation.quality.data.labels import check_label

logger = logging.getLogger(__name__)

__all__ = ["Policy", "ValidationRequest", "table_digest", "validate"]


@dataclass(frozen=True, slots=True)
class ValidationRequest:
    """What shall be judged, and with which evidence.

    `candidate` and `baseline` are version directories; no baseline makes a first version. `held_out` and `training` are
    pyarrow Tables with a column per input and the `label`; `log_root` and `serving_model` name the inference log of
    what serves now. `report` is the directory for Data Docs. `entity` names a column whose equal values belong together
    (a user, say), for the intervals. `probe` overrides the command that loads a version, for tests.
    """

    candidate: Path
    held_out: Any
    label: str
    baseline: Path | None = None
    training: Any | None = None
    log_root: Path | None = None
    serving_model: str | None = None
    policy: Policy = field(default_factory=Policy)
    report: Path | None = None
    entity: str | None = None
    probe: tuple[str, ...] | None = None


def validate(request: ValidationRequest) -> Verdict:
    """Runs the policy's gates and returns the verdict, unsigned.

    Raises NotFound, Tampered or InvalidInput for a version or data that cannot be judged at all. Whatever goes wrong
    inside a gate is that gate's ERROR.
    """
    manifest, digest = _read(request.candidate)
    baseline = _read(request.baseline) if request.baseline else None
    if request.held_out.num_rows == 0:
        raise InvalidInput("held-out data has no rows: give examples that the model was not trained on")
    if "quality" in request.policy.run:
        check_label(request.held_out, request.label)
    material = gate_runs.Material(
        candidate=request.candidate,
        manifest=manifest,
        baseline=request.baseline,
        baseline_manifest=baseline[0] if baseline else None,
        held_out=request.held_out,
        training=request.training,
        label=request.label,
        log_root=request.log_root,
        serving_model=request.serving_model or manifest.id.name,
        policy=request.policy,
        report=request.report,
        entity=request.entity,
        probe=request.probe,
    )
    results = [_run(name, gate_runs.gate_run(name), material) for name in request.policy.run]
    subject = Subject(manifest.id, digest, baseline[1] if baseline else None, table_digest(request.held_out))
    return decide(subject, results, request.policy)


def table_digest(table: Any) -> str:
    """SHA-256 in hex of a pyarrow.Table's schema and values."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as writer:
        writer.write_table(table.replace_schema_metadata(None).combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()


def _read(directory: Path) -> tuple[Manifest, str]:
    manifest, digest = read_manifest(directory)
    verify_files(manifest, directory)
    return manifest, digest


def _run(name: str, gate: Callable[[gate_runs.Material], GateResult], material: gate_runs.Material) -> GateResult:
    started = time.monotonic()
    try:
        result = gate(material)
    except Exception as error:  # whatever it is, it is neither a pass nor the candidate's fault
        logger.exception("the %s gate could not finish", name)
        sentence = f"the {name} gate could not finish: {type(error).__name__}: {error}"
        return GateResult(name, Outcome.ERROR, sentence, (), time.monotonic() - started)
    return GateResult(result.gate, result.outcome, result.sentence, result.findings, time.monotonic() - started)
