"""Runs a step on every engine of a group at once, and says which of them failed.

A connection names a group by several addresses, or by a name that stands for several. Each engine keeps its own desired
state; what is the same in all of them is what steps bring about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from tidegate_operators.steps.away import is_away
from tidegate_operators.steps.change_desired import REQUESTED_BY
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, NotAdmitted, TidegateError
from tidegate_serving.contract.servable import State
from tidegate_serving.control.status import VersionStatus
from tidegate_serving.control_client import ControlClient, ServableStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcomes(Generic[T]):
    """What came of a call on each engine, in the order of the group."""

    done: Sequence[tuple[EngineConnection, T]]
    failed: Sequence[tuple[EngineConnection, TidegateError]]

    def all(self, what: str = "") -> tuple[T, ...]:
        """What each engine said. Where some failed, the kind of the first that refuses, or else of the first, with each
        of them and what it said."""
        if not self.failed:
            return tuple(result for _, result in self.done)
        errors = [error for _, error in self.failed]
        first = next((error for error in errors if not is_away(error)), errors[0])
        if not self.done and len(self.failed) == 1:
            raise first
        said = "; ".join(f"{engine}: {error.message}" for engine, error in self.failed)
        count = len(self.done) + len(self.failed)
        head = f"{what}, because " if what else ""
        raise type(first)(f"{head}{len(self.failed)} of {count} engines failed: {said}") from first


def engines_of(control: str | EngineConnection) -> tuple[EngineConnection, ...]:
    """Every engine that a connection names now."""
    return EngineConnection.of(control).resolved().each()


def on_each(engines: Sequence[EngineConnection], call: Callable[[EngineConnection], T]) -> Outcomes[T]:
    """Calls for all of them at once, and waits for all."""
    done: list[tuple[EngineConnection, T]] = []
    failed: list[tuple[EngineConnection, TidegateError]] = []
    with ThreadPoolExecutor(len(engines) or 1, thread_name_prefix="tidegate-group") as threads:
        waiting = [(engine, threads.submit(call, engine)) for engine in engines]
        for engine, future in waiting:
            try:
                done.append((engine, future.result()))
            except TidegateError as error:
                failed.append((engine, error))
    return Outcomes(done, failed)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What a group has in common after `reconcile`; `changed` are the engines that took it over now."""

    desired: DesiredState
    changed: tuple[str, ...]


def reconcile(
    *, control: str | EngineConnection, servable: str, reason: str = "", requested_by: str = REQUESTED_BY
) -> Reconciled:
    """Brings engines of a group that came late, or missed a change, to the desired state that most of them have; of
    two that as many have, to the one that was said last. An engine that never heard of the servable does not count.

    A version that one of them serves is admitted by the others, too, where its verdict's date has passed since; that
    takes the role `operate`.
    What operators decided on single engines (pins, splits, blocks) stays as it is. Raises as `push` where an engine
    refuses, naming it; FailedPrecondition where no engine of the group knows the servable.
    """
    engines = engines_of(control)
    found = on_each(engines, lambda engine: _status(engine, servable)).all("nothing was changed")
    states = [one.desired for one in found]
    spoken = [state for state in states if state.revision]
    if not spoken:
        raise FailedPrecondition(f"no engine of {control} was told of {servable!r}: push a version first")
    counts = Counter(_wanted(state) for state in spoken)
    common = max(spoken, key=lambda state: (counts[_wanted(state)], state.at_us))
    late = [(engine, state) for engine, state in zip(engines, states, strict=True) if _wanted(state) != _wanted(common)]
    revisions = {str(engine): state.revision for engine, state in late}
    wanted = replace(common, requested_by=requested_by, reason=reason or f"as the others of {control}", unusable={})

    admitted = {one.manifest_digest for status in found for one in status.versions if _serves_admitted(one)}

    def take(engine: EngineConnection) -> int:
        with ControlClient(engine) as client:
            try:
                return client.set_desired_state(wanted, revisions[str(engine)])
            except NotAdmitted:
                if not admitted:
                    raise
                return client.set_desired_state(wanted, revisions[str(engine)], admitted=admitted)

    if late:
        on_each([engine for engine, _ in late], take).all()
    return Reconciled(common, tuple(str(engine) for engine, _ in late))


def _status(engine: EngineConnection, servable: str) -> ServableStatus:
    with ControlClient(engine) as client:
        return client.servable(servable)


def _serves_admitted(version: VersionStatus) -> bool:
    return version.state is State.AVAILABLE and version.admitted is not None


def _wanted(state: DesiredState) -> tuple[object, ...]:
    """What engines can have in common, as something that can be counted."""
    versions = frozenset((one.version, one.manifest_digest, _place(one)) for one in state.versions)
    return versions, frozenset(state.labels.items()), state.shadow, state.keep_previous


def _place(version: VersionReference) -> str:
    """An address is the same for all; where the copy lies is each engine's own."""
    return version.address or str(version.directory)
