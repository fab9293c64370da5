"""Pushes of version directories through the control port, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.models.versions import digest_of

from tidegate_serving.contract.desired_state import DesiredState, Shadow, VersionReference
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient


def push(
    control: ControlClient,
    *directories: Path,
    labels: Mapping[str, int] | None = None,
    shadow: Shadow | None = None,
) -> int:
    """Makes exactly these versions of one servable desired; the revision."""
    versions = tuple(VersionReference(int(path.name), path, digest_of(path)) for path in directories)
    name = directories[0].parent.name
    desired = DesiredState(name, versions, labels or {}, shadow, requested_by="test", reason="test")
    return control.set_desired_state(desired)


def push_and_wait(
    control: ControlClient, *directories: Path, labels: Mapping[str, int] | None = None, shadow: Shadow | None = None
) -> None:
    """Pushes, then waits until every version is AVAILABLE."""
    push(control, *directories, labels=labels, shadow=shadow)
    for path in directories:
        control.wait_until(path.parent.name, int(path.name), State.AVAILABLE, 30)
