"""What serves now, for those who judge a candidate: the version to compare with, and the log of what it saw.

Orchestrators ask here before `validate`; the answers come from the engine's control port. In a group any engine knows
what serves, and each has a log of its own: these lie in one folder and are read together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tidegate_operators.steps.away import is_away
from tidegate_operators.steps.engine_group import engines_of, on_each
from tidegate_operators.steps.stored_version import fetch, on_this_machine
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, NotFound
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.control_client import ControlClient, ServableStatus
from tidegate_serving.inference_log.joined import joined_log

T = TypeVar("T")
_log = logging.getLogger(__name__)


def find_baseline(*, control: str | EngineConnection, directory: Path) -> Path | None:
    """Directory of the version that ordinary clients get now, for comparison with the candidate in `directory`: where
    the engine has it from an object store, a verified copy on this machine.

    None where nothing serves under the candidate's name, or the candidate itself does. Raises Unavailable where the
    engine does not answer: a candidate must not pass as a first version because the engine was down.
    """
    identity = read_manifest(directory)[0].id
    serving = _serving(control, identity.name)
    return None if serving is None or serving.version == identity.version else here(serving)


def serving_directory(*, control: str | EngineConnection, servable: str) -> Path:
    """Directory of the version that ordinary clients get now. FailedPrecondition where nothing serves."""
    serving = _serving(control, servable)
    if serving is None:
        raise FailedPrecondition(f"nothing serves under {servable!r} at {control}: see `tidegate status`")
    return here(serving)


def previous_directory(*, control: str | EngineConnection, servable: str) -> Path | None:
    """Directory of the version that a rollback goes to: where the engine has it from an object store it may be a
    verified copy on this machine. None where no engine remembers one.

    NotFound where it is not on this machine, or has no manifest there; else raises as `fetch`.
    """
    answers = _ask(control, lambda client: client.servable(servable))
    told = [answer for answer in answers if answer is not None and answer.previous is not None]
    for answer in told:
        found = _previous(answer)
        if found is not None:
            return found
    if told:
        raise NotFound(
            f"{servable}:{told[0].previous}, which a rollback goes to, is not on this machine: mount the model "
            "repository here, at the path that the engine has too, or publish the version again"
        )
    return None


def _previous(answer: ServableStatus) -> Path | None:
    """Where the version that a rollback goes to lies on this machine, None where it does not."""
    number = str(answer.previous)
    found, serving = answer.desired.version(answer.previous), _reference(answer)
    places = [found.directory] if found is not None else []
    addresses = [found.address] if found is not None else []
    if serving is not None:
        places.append(serving.directory.parent / number)
        addresses.append(f"{serving.address.rpartition('/')[0]}/{number}" if serving.address else "")
    here = [place for place in places if (place / FILE_NAME).is_file()]
    if here:
        return here[0]
    stored = [address for address in addresses if address]
    return on_this_machine(stored[0]) if stored else None


def here(version: VersionReference) -> Path:
    """Where the version lies on this machine, if it does; a verified copy of one that lies in an object store."""
    if version.directory.is_dir() or not version.address:
        return version.directory
    return fetch(version.address, version.manifest_digest)


def pushed_directory(*, control: str | EngineConnection, servable: str, version: int) -> Path:
    """Directory of a version that is live, or was: then it lies beside the one that serves. Where the engine has it
    from an object store it may be a verified copy on this machine. FailedPrecondition for any other."""
    with ControlClient(engines_of(control)[0]) as client:
        desired = client.desired(servable)
    found = desired.version(version)
    if found is not None:
        return here(found)
    serving = desired.version(desired.stable)
    if serving is None or not (beside := serving.directory.parent / str(version)).is_dir():
        raise FailedPrecondition(f"{servable}:{version} is not live at {control}: push it first")
    return beside


def find_log(*, control: str | EngineConnection) -> Path | None:
    """Root folder of the engine's inference log, None where it keeps none; of a group the folder with all their logs.

    Where an engine of a group does not answer, what it wrote counts, and a warning says that the rest is missing.
    """
    answers = _ask(control, lambda client: client.status().log_path)
    return joined_log([path for path in answers if path is not None], some_away=None in answers)


def require_log(*, control: str | EngineConnection) -> Path:
    """Root folder of the engine's inference log. FailedPrecondition where it keeps none."""
    found = find_log(control=control)
    if found is None:
        raise FailedPrecondition(f"the engine at {control} keeps no inference log: start it with --log-path")
    return found


def _serving(control: str | EngineConnection, servable: str) -> VersionReference | None:
    answers = _ask(control, lambda client: client.servable(servable))
    told = [answer for answer in answers if answer is not None and answer.clients_get is not None]
    return _reference(told[0]) if told else None


def _reference(status: ServableStatus) -> VersionReference | None:
    """What clients get; what is desired for them where the engine does not have that, such as a pinned version whose
    files are gone."""
    number = status.clients_get
    found, loaded = status.desired.version(number), status.version(number) if number is not None else None
    if found is None and loaded is not None and loaded.path:
        return VersionReference(loaded.version, Path(loaded.path), loaded.manifest_digest)
    return found or status.desired.version(status.desired.stable)


def _ask(control: str | EngineConnection, call: Callable[[ControlClient], T]) -> Sequence[T | None]:
    """What each engine says, None of one that does not answer. Unavailable where none does."""

    def ask(engine: EngineConnection) -> T:
        with ControlClient(engine) as client:
            return call(client)

    outcomes = on_each(engines_of(control), ask)
    if not outcomes.done or not all(is_away(error) for _, error in outcomes.failed):
        outcomes.all()
    for engine, error in outcomes.failed:
        _log.warning("engine %s does not answer, what it has not written to its log is missing: %s", engine, error)
    return [*(said for _, said in outcomes.done), *(None for _ in outcomes.failed)]
