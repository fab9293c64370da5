"""Runs the gates over one version and signs what they say with the validator's key.

The signed verdict and its report lie beside the version's directory; whoever pushes gets the verdict's digest.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate_operators.steps.serving_now import find_baseline, find_log
from tidegate_serving.admission import Signer, Verdict, key_id, load_private_key, write_verdict
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import Refused
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import report_directory, verdict_path
from tidegate_serving.files import require_writable
from tidegate_validation.evidence import Evidence
from tidegate_validation.progress import SILENT, Progress

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Validation:
    """The verdict, where it lies signed, the SHA-256 of that file in hex, and the report for people."""

    verdict: Verdict
    verdict_path: Path
    verdict_digest: str
    report: Path


def validate(
    directory: Path, evidence: Evidence, *, private_key: Path | Signer, progress: Progress = SILENT
) -> Validation:
    """Judges the version in `directory` and writes the signed verdict, whether it allows or denies.

    `private_key` is a PEM file, or what signs in its place, such as a key in Vault.

    NotFound or InvalidInput for evidence that cannot be read. A gate that fails to run is a finding with outcome ERROR,
    which denies. OSError at once where the verdict could not be written. Ask `require_allowed` where a no shall be an
    error.
    """
    from tidegate_validation.gates import run_gates
    from tidegate_validation.report import Seal, write_report

    key = load_private_key(private_key) if isinstance(private_key, Path) else private_key
    signed_by = key_id(key.public_key())
    directory = directory.absolute()
    if directory.is_dir():
        require_writable(directory.parent)
    verdict = run_gates(directory, evidence, report=report_directory(directory), progress=progress)
    path = verdict_path(directory)
    verdict_digest = write_verdict(verdict, path, key)
    report = write_report(verdict, report_directory(directory), Seal(signed_by, verdict_digest), directory)
    return Validation(verdict, path, verdict_digest, report)


def against_serving(evidence: Evidence, *, directory: Path, control: str | EngineConnection) -> Evidence:
    """The same against what serves: where it names no baseline, the version that ordinary clients get now, and where it
    names no log, the engine's, if there is something to compare with.
    """
    baseline = evidence.baseline or find_baseline(control=control, directory=directory)
    log_root = evidence.log_root or (_log_here(control) if baseline else None)
    return replace(evidence, baseline=baseline, log_root=log_root)


def _log_here(control: str | EngineConnection) -> Path | None:
    found = find_log(control=control)
    if found is None or found.is_dir():
        return found
    _log.warning("the engine's log %s is not on this machine, so skew is not judged by it: mount it here", found)
    return None


def judged_against(asked: Evidence, evidence: Evidence) -> int | None:
    """The version that served when `against_serving` made `evidence` of `asked`, 0 for none; None where a person named
    the baseline, which need not serve. What `push` takes."""
    if asked.baseline is not None:
        return None
    return 0 if evidence.baseline is None else read_manifest(Path(evidence.baseline))[0].id.version


def require_allowed(validated: Validation) -> Validation:
    """The same, or Refused with the verdict's sentence where it does not allow the version."""
    if not validated.verdict.allowed:
        raise Refused(validated.verdict.sentence)
    return validated
