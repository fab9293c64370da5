"""Removes old versions from a model repository, never one that an engine needs or may go back to.

The engines that serve from it say what they need. Verdicts stay: they are small, and they are a model's history.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate_operators.steps.engine_group import engines_of
from tidegate_operators.steps.reference import remove_reference
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import report_directory, version_directory, versions
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient, ServableStatus
from tidegate_serving.files import remove_folder

_LEFT = re.compile(r"\.\d+(\.report)?\.[0-9a-f]{8}\.removed")
"""What a clean-up was killed in the middle of: nobody reads it any more."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What stays: the `keep` newest versions of each servable, and whatever is not older than `older_than`."""

    keep: int = 5
    older_than: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise InvalidInput(f"keep is {self.keep}: keep at least the newest version")


@dataclass(frozen=True, slots=True)
class CleanUpResult:
    """What was removed (or would be), what an engine needs, with the reason, and the bytes that this frees."""

    removed: tuple[ServableId, ...]
    spared: tuple[tuple[ServableId, str], ...]
    freed_bytes: int


def clean_up(
    *,
    repository: Path,
    controls: Sequence[str | EngineConnection],
    retention: Retention,
    dry_run: bool = False,
    now: datetime | None = None,
) -> CleanUpResult:
    """Removes what `retention` does not keep and no engine at `controls` needs.

    An engine needs what it serves, loads or wants, what a label names, what it keeps, and what it would roll back to.
    Raises Unavailable where an engine does not answer, InvalidInput without one: what serves has to be known. NotFound
    for a missing repository. Each version disappears at once or not at all; what is left of one that was removed when a
    clean-up was killed goes too.
    """
    if not repository.is_dir():
        raise NotFound(f"model repository {repository} is no folder: mend the path")
    if not controls:
        raise InvalidInput("no engine is named, so nobody knows what serves: give its control address")
    engines = [engine for control in controls for engine in engines_of(control)]
    statuses = [servable for engine in engines for servable in _servables(engine)]
    removed: list[ServableId] = []
    spared: list[tuple[ServableId, str]] = []
    freed = 0
    for name in sorted(child.name for child in repository.iterdir() if child.is_dir() and child.name[0] != "."):
        for left in [child for child in (repository / name).iterdir() if _LEFT.fullmatch(child.name)]:
            with contextlib.suppress(FileNotFoundError):  # somebody removes it at this moment
                freed += _bytes(left)
                if not dry_run:
                    shutil.rmtree(left)
        numbers = versions(repository, name)
        needed = _needed([status for status in statuses if status.servable == name], numbers)
        for number in numbers[: -retention.keep]:
            identity = ServableId(name, number)
            directory = version_directory(repository, identity)
            if not _is_old(directory, retention, now or datetime.now(UTC)):
                continue
            if number in needed:
                spared.append((identity, needed[number]))
                continue
            freed += _bytes(directory)
            removed.append(identity)
            if not dry_run:
                # The version goes last: while it is there, the next clean-up finds what this one did not do.
                remove_reference(directory)
                remove_folder(report_directory(directory))
                remove_folder(directory)
    return CleanUpResult(tuple(removed), tuple(spared), freed)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _servables(engine: EngineConnection) -> tuple[ServableStatus, ...]:
    with ControlClient(engine) as client:
        return client.status().servables


def _needed(statuses: Sequence[ServableStatus], numbers: Sequence[int]) -> dict[int, str]:
    """Versions by number with why an engine needs them, the weightiest reason last."""
    needed: dict[int, str] = {}
    for status in statuses:
        serving = [entry.version for entry in status.versions if entry.state is not State.END]
        below = [number for number in numbers if serving and number < min(serving)]
        if status.previous is not None:
            needed[status.previous] = "a rollback goes back to it"
        elif below:
            needed[below[-1]] = "a rollback would go back to it"
        needed |= dict.fromkeys(status.kept, "the engine keeps it")
        needed |= dict.fromkeys((*status.desired.numbers, *status.desired.unusable), "it is wanted")
        needed |= {number: f"label {label!r} is to name it" for label, number in status.desired.labels.items()}
        for entry in status.versions:
            if entry.labels:
                needed[entry.version] = f"label {entry.labels[0]!r} names it"
            elif entry.state is not State.END:
                needed[entry.version] = f"it is {entry.state.name}"
    return needed


def _is_old(directory: Path, retention: Retention, now: datetime) -> bool:
    """By the time of publication; a directory without a usable manifest by that of its last change."""
    try:
        created = times.from_text(read_manifest(directory)[0].created_at, f"created_at of {directory}")
    except TidegateError:
        created = datetime.fromtimestamp(directory.stat().st_mtime, UTC)
    return now - created >= retention.older_than
