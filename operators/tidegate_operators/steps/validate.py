"""Runs the gates over one version and signs what they say with the validator's key.

In come the version directory, the evaluation data and the version to compare with; out go the signed verdict and its
report beside the directory, and their whereabouts to whoever pushes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_operators.steps.evidence import Evidence, gather
from tidegate_serving.admission import Verdict, key_id, load_private_key, write_verdict
from tidegate_serving.contract.errors import Refused
from tidegate_serving.contract.repository import report_directory, verdict_path


@dataclass(frozen=True, slots=True)
class Validated:
    """The verdict, where it lies signed, the SHA-256 of that file in hex, and the report for people."""

    verdict: Verdict
    verdict_path: Path
    verdict_digest: str
    report: Path


def validate(
    *,
    directory: Path,
    held_out: Any,
    private_key: Path,
    baseline: Path | None = None,
    training: Any = None,
    log_root: Path | None = None,
    policy: Path | None = None,
    label: str | None = None,
    entity: str | None = None,
) -> Validated:
    """Judges the version in `directory` and writes the signed verdict, whether it allows or denies.

    See `Evidence` for what `held_out`, `training` and the others are; `find_baseline` finds what serves now.

    NotFound or InvalidInput for evidence that cannot be read. A gate that fails to run is a finding with outcome ERROR,
    which denies. Ask `require_allowed` where a no shall be an error.
    """
    from tidegate_validation.gates import validate as run_gates
    from tidegate_validation.report import Seal, write_report

    key = load_private_key(private_key)
    directory = directory.absolute()
    evidence = Evidence(held_out, label, baseline, training, log_root, policy, entity)
    request = gather(directory, evidence, report_directory(directory))
    verdict = run_gates(request)
    path = verdict_path(directory)
    verdict_digest = write_verdict(verdict, path, key)
    report = write_report(verdict, report_directory(directory), Seal(key_id(key.public_key()), verdict_digest))
    return Validated(verdict, path, verdict_digest, report)


def require_allowed(validated: Validated) -> Validated:
    """The same, or Refused with the verdict's sentence where it does not allow the version."""
    if not validated.verdict.allowed:
        raise Refused(validated.verdict.sentence)
    return validated
