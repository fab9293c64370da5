"""Gives a pushed version a growing share of ordinary traffic, as far as the evidence allows, else takes all of it back.

The share is a split of the engine whose reason names the canary, by which it is found again after a kill. It ends with
a refusal, and, after the last share, with the promotion.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tidegate_operators.steps.canary_group import CanaryGroup
from tidegate_operators.steps.canary_labels import answers_two
from tidegate_operators.steps.canary_pairs import StepBegun, read_pairs, unnamed
from tidegate_operators.steps.change_desired import REQUESTED_BY, give_up
from tidegate_operators.steps.decided import check_not_blocked, check_not_pinned
from tidegate_operators.steps.engine_group import engines_of, on_each
from tidegate_operators.steps.serving_now import here
from tidegate_operators.steps.superseded import check_beside, check_not_promoted, require_live
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import STABLE, DesiredState, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, Superseded
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control_client import ControlClient, ServableStatus
from tidegate_validation.canary.growth import Step, move
from tidegate_validation.canary.judgement import CanaryResult
from tidegate_validation.canary.rule import CanaryRule
from tidegate_validation.progress import SILENT, Progress

_AFTER_SECONDS = 120.0


def _forget(step: StepBegun) -> None:
    """Where nobody goes on after a kill."""


@dataclass(slots=True)
class TrafficObservation:
    """A canary in traffic under way: the version, where it lies, whom it is compared with since when, and its step.

    `keep` is told of a step before clients notice it, so that a task that was killed goes on with that. `classes` tells
    those of a version's columns, by which its answers are compared with labels.
    """

    id: ServableId
    directory: Path
    manifest_digest: str
    primary: int
    since: datetime
    log_path: Path
    rule: CanaryRule
    step: StepBegun
    keep: Callable[[StepBegun], None] = _forget
    classes: Callable[[int], Sequence[str]] = unnamed
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def look(self, group: CanaryGroup, progress: Progress = SILENT) -> CanaryResult:
        """What the log says by now; the share grows where that allows it and every engine answers."""
        missing = group.missing(self.id, self.divide)
        group.check(self.id.name, self._require_live)
        log = group.logged(self.log_path, self.id, self.primary, self.since)
        seen = read_pairs(log, self.id, self.primary, self.since, self.step, self.rule, self.classes)
        seconds = (self.clock() - self.step.at).total_seconds()
        step = Step(self.step.number, seconds, seen.in_step, seen.alone, held=missing.awaited)
        found = move(str(self.id), seen.beside, step, self.rule)
        progress.at(f"answers compared, share {100 * self.rule.shares[self.step.number]:.2f} %", seen.beside.compared)
        if found.number != self.step.number:
            grown = StepBegun(found.number, self.clock())
            self.keep(grown)
            self.step = grown
            group.tell(self.divide)
        return missing.told_in(found.result)

    def _require_live(self, status: ServableStatus) -> None:
        require_live(status, self.id.version, "for a canary of its own")
        check_not_promoted(status, self.id.version)
        check_not_pinned(status, self.id.version)
        check_not_blocked(status, self.id.version)
        check_beside(status, self.id.version, self.primary)

    def divide(self, client: ControlClient) -> None:
        """Makes an engine divide traffic as the step says, for as long as the canary may take; where it does so already
        nothing changes."""
        self._divide(client, ends_us(self.since, self.rule.seconds))

    def _divide(self, client: ControlClient, until_us: int) -> None:
        name, share = self.id.name, self.rule.shares[self.step.number]
        shares = {self.primary: 1.0 - share, self.id.version: share}
        try:
            client.split(
                name,
                shares,
                key=self.rule.key,
                until_us=until_us,
                requested_by=REQUESTED_BY,
                reason=_reason(self.id),
            )
        except InvalidInput:  # the engine knows no such version any more, if another release was quicker
            require_live(client.servable(name), self.id.version, "for a canary of its own")
            raise

    def end(self, group: CanaryGroup, passed: bool) -> None:
        """A version that did not pass gets no traffic and is wanted no more; one that did keeps its share until it is
        promoted, so that no client goes back and forth."""
        group.tell(self._keep_share if passed else self._take_back)

    def _keep_share(self, client: ControlClient) -> None:
        status = client.servable(self.id.name)
        if has_split(status, self.id):
            self._divide(client, until_us=0)
        if status.desired.labels.get(STABLE) == self.id.version:
            end_split(client, self.id, f"{self.id} was promoted")

    def _take_back(self, client: ControlClient) -> None:
        end_split(client, self.id, f"the canary of {self.id} did not pass")
        give_up(client, self.id.name, self.id.version, f"the canary of {self.id} ended")


def classes_among(desired: DesiredState, beside: Path) -> Callable[[int], Sequence[str]]:
    """Tells the classes of a version's columns, as its manifest names them; one that is not desired lies `beside` the
    folder of another. NotFound where its manifest is not on this machine."""

    @cache
    def classes(version: int) -> Sequence[str]:
        from tidegate_validation.quality.data.outputs import classes_of

        found = desired.version(version) or VersionReference(version, beside.parent / str(version))
        return () if found.unpublished else classes_of(read_manifest(here(found))[0])

    return classes


def ends_us(since: datetime, seconds: float) -> int:
    """When a canary of this many seconds is surely over, in Unix microseconds: what it turned on ends by itself then,
    so that nobody is asked for ever what nobody looks at. One that goes on late gets a little time to end."""
    return round((max(since.timestamp() + seconds, time.time()) + _AFTER_SECONDS) * 1e6)


def begin_traffic(group: CanaryGroup, observation: TrafficObservation) -> None:
    """Begins, or goes on after a kill. Superseded where another canary divides the traffic, FailedPrecondition where
    somebody does, NotFound where labels need the names of two columns and a manifest is not on this machine."""
    primary = ServableId(observation.id.name, observation.primary)
    if observation.rule.labels and answers_two(observation.log_path, primary, observation.rule):
        for one in (primary, observation.id):
            observation.classes(one.version)
    group.tell(lambda client: _check_no_foreign_split(client, observation), "the traffic is not divided")
    observation.keep(observation.step)
    group.tell(observation.divide)


def _check_no_foreign_split(client: ControlClient, observation: TrafficObservation) -> None:
    foreign = _split_reason(client.servable(observation.id.name))
    if foreign is not None and foreign != _reason(observation.id):
        name = observation.id.name
        kind = Superseded if _CANARY.fullmatch(foreign) else FailedPrecondition
        raise kind(
            f"ordinary traffic of {name!r} is split already ({foreign or 'no reason given'}): end that first, with "
            f"`tidegate split {name} --off`"
        )


def take_out(
    *, control: str | EngineConnection, servable: str, version: int, reason: str, labelled: bool = True
) -> None:
    """Ends the split that a canary of this version left, and wants the version no more, on each engine of a group. One
    that was promoted stays, and without `labelled` one with any label, as somebody set it by hand.

    Raises what engines say that refuse, or do not answer, once the others have been told.
    """
    identity = ServableId(servable, version)

    def leave(engine: EngineConnection) -> None:
        with ControlClient(engine) as client:
            if labelled or version not in client.servable(servable).desired.labels.values():
                take_out_of(client, identity, reason)

    on_each(engines_of(control), leave).all(f"{identity} was not taken out everywhere")


def take_out_of(client: ControlClient, identity: ServableId, reason: str) -> None:
    """The same on one engine."""
    end_split(client, identity, reason)
    give_up(client, identity.name, identity.version, reason)


def end_split(client: ControlClient, identity: ServableId, reason: str) -> None:
    """Ends the split of this version's canary, where there is one."""
    if has_split(client.servable(identity.name), identity):
        client.split(identity.name, {}, requested_by=REQUESTED_BY, reason=reason)


def has_split(status: ServableStatus, identity: ServableId) -> bool:
    """Whether the canary of this version divides the traffic."""
    return _split_reason(status) == _reason(identity)


_CANARY = re.compile(r"canary of \S+ in traffic")


def _reason(identity: ServableId) -> str:
    return f"canary of {identity} in traffic"


def _split_reason(status: ServableStatus) -> str | None:
    return next((one.reason for one in status.overrides_of("split")), None)
