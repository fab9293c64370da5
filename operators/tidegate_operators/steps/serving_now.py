"""What serves now, for those who judge a candidate: the version to compare with, and the log of what it saw.

Orchestrators ask here before `validate`; the answers come from the engine's control port, for a group from its
first engine.
"""

from __future__ import annotations

from pathlib import Path

from tidegate_operators.steps.engine_group import engines_of
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.control_client import ControlClient


def find_baseline(*, control: str | EngineConnection, directory: Path) -> Path | None:
    """Directory of the version that ordinary clients get now, for comparison with the candidate in `directory`.

    None where nothing serves under the candidate's name, or the candidate itself does. Raises Unavailable where the
    engine does not answer: a candidate must not pass as a first version because the engine was down.
    """
    identity = read_manifest(directory)[0].id
    serving = _serving(control, identity.name)
    return None if serving is None or serving.version == identity.version else serving.directory


def serving_directory(*, control: str | EngineConnection, servable: str) -> Path:
    """Directory of the version that ordinary clients get now. FailedPrecondition where nothing serves."""
    serving = _serving(control, servable)
    if serving is None:
        raise FailedPrecondition(f"nothing serves under {servable!r} at {control}: see `tidegate status`")
    return serving.directory


def pushed_directory(*, control: str | EngineConnection, servable: str, version: int) -> Path:
    """Directory of a version that is live, or was: then it lies beside the one that serves. FailedPrecondition for any
    other."""
    with ControlClient(engines_of(control)[0]) as client:
        desired = client.desired(servable)
    found = desired.version(version)
    if found is not None:
        return found.directory
    serving = desired.version(desired.stable)
    if serving is None or not (beside := serving.directory.parent / str(version)).is_dir():
        raise FailedPrecondition(f"{servable}:{version} is not live at {control}: push it first")
    return beside


def find_log(*, control: str | EngineConnection) -> Path | None:
    """Root folder of the engine's inference log, None where it keeps none."""
    with ControlClient(engines_of(control)[0]) as client:
        log_path = client.status().log_path
    return Path(log_path) if log_path else None


def require_log(*, control: str | EngineConnection) -> Path:
    """Root folder of the engine's inference log. FailedPrecondition where it keeps none."""
    found = find_log(control=control)
    if found is None:
        raise FailedPrecondition(f"the engine at {control} keeps no inference log: start it with --log-path")
    return found


def _serving(control: str | EngineConnection, servable: str) -> VersionReference | None:
    with ControlClient(engines_of(control)[0]) as client:
        desired = client.desired(servable)
    return desired.version(desired.stable)
