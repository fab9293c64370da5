"""What becomes of a servable, as one pure function of what is desired, what operators decided, and what is loaded.

    resolve(desired, overrides, loaded, before) -> Routing

The reconciler asks whenever one of these changes, tells the manager which versions to have loaded, and the data plane
where requests go. `before` is the last answer: labels and ordinary traffic stay where they were until the version that
they are meant for is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidegate_serving.contract.desired_state import STABLE, DesiredState, VersionReference, ordinary_version
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.overrides import NO_HISTORY, History, Overrides
from tidegate_serving.requests.model_traffic import ModelTraffic
from tidegate_serving.sources.target import AspiredVersion

_Versions = dict[int, VersionReference | TidegateError]


@dataclass(frozen=True, slots=True)
class Routing:
    """What is made so.

    `aspired` are the versions to have loaded, of these `kept` are there only so that a rollback takes effect at once.
    `labels` is where labels are to be, `traffic` where they and all requests are now. `memory` is what of the `history`
    has to be known after a restart. `known` are the versions that are aspired, loaded or serving. `steered` says
    whether ordinary requests follow label `stable`.
    """

    aspired: tuple[AspiredVersion[VersionReference], ...] = ()
    kept: frozenset[int] = frozenset()
    labels: Mapping[str, int] = field(default_factory=dict)
    traffic: ModelTraffic = field(default_factory=ModelTraffic)
    history: History = NO_HISTORY
    memory: History = NO_HISTORY
    known: Mapping[int, VersionReference] = field(default_factory=dict)
    steered: bool = False

    @property
    def numbers(self) -> frozenset[int]:
        """The version numbers to have loaded."""
        return frozenset(version.id.version for version in self.aspired)

    @property
    def serving(self) -> VersionReference | None:
        """The version that ordinary requests get now."""
        return None if self.traffic.ordinary is None else self.known.get(self.traffic.ordinary)

    @property
    def held(self) -> frozenset[int]:
        """Versions that must stay because a label, or ordinary traffic, waits there for another version."""
        held = {number for label, number in self.traffic.labels.items() if self.labels.get(label, number) != number}
        ordinary = self.traffic.ordinary
        if ordinary is not None and not self.steered and ordinary not in self.numbers - self.kept:
            held.add(ordinary)
        return frozenset(held)

    @property
    def meant(self) -> int | None:
        """The version that ordinary requests are meant for, once it is loaded."""
        return ordinary_version(self.labels if self.steered else {}, self.numbers)

    @property
    def overtaken(self) -> tuple[int, int] | None:
        """The version that label `stable` sends ordinary requests to, and the newest one, where that is another."""
        newest = max(self.traffic.versions & self.numbers, default=None)
        ordinary = self.traffic.ordinary
        return (ordinary, newest) if self.steered and ordinary is not None and newest and newest > ordinary else None


def resolve(
    desired: DesiredState,
    overrides: Overrides,
    loaded: frozenset[int],
    before: Routing,
    keep_previous: bool = False,
    follow_stable: bool = True,
) -> Routing:
    """`loaded` are the versions that requests can be routed to; `keep_previous` keeps the one that serves, and the one
    before it, loaded. Without `follow_stable` that label is like any other where only the desired state has it, and
    ordinary requests go to the newest version."""
    known = references(desired, overrides, before)
    history = before.history
    plan = _plan(desired, overrides, history, keep_previous, follow_stable)
    labels, ordinary = _place(plan, loaded, before.traffic)
    if ordinary is not None and ordinary in known:
        moved = history.moved_to(known[ordinary])
        if moved != history:  # what is kept, and what stands in for a blocked version, depends on what serves
            history, plan = moved, _plan(desired, overrides, moved, keep_previous, follow_stable)
            labels, ordinary = _place(plan, loaded, before.traffic)
    without = _plan(desired, overrides, replace(history, serving=None), keep_previous, follow_stable)
    shadow = plan.base.shadow
    return Routing(
        aspired=tuple(_aspired(desired.servable, number, version) for number, version in plan.versions.items()),
        kept=plan.kept,
        labels=plan.labels,
        traffic=ModelTraffic(
            model=desired.servable,
            versions=loaded,
            labels=labels,
            waiting=frozenset(plan.labels.keys() - labels.keys()) if loaded else frozenset(),
            ordinary=ordinary,
            steered=plan.steered,
            shadow=shadow if shadow and shadow.fraction and shadow.version in loaded & plan.numbers else None,
            split=overrides.split.split if overrides.split and loaded else None,
            disabled=plan.disabled,
        ),
        history=history,
        memory=history if without != plan else replace(history, serving=None),
        known={number: known[number] for number in (loaded | plan.numbers) & known.keys()},
        steered=plan.steered,
    )


def references(desired: DesiredState, overrides: Overrides, before: Routing) -> dict[int, VersionReference]:
    """Every version that can be named by its number: loaded or aspired before, decided about, served or desired."""
    history = before.history
    serving = (history.serving,) if history.serving else ()
    found = (*history.served, *serving, *overrides.references(), *desired.versions)
    return {**before.known, **{one.version: one for one in found}}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be once everything is loaded: versions, or what stands in their way, by number, and labels; and
    whether label `stable` has ordinary requests with it."""

    base: DesiredState
    versions: _Versions
    labels: Mapping[str, int]
    kept: frozenset[int]
    disabled: str
    steered: bool

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(self.versions)


def _plan(
    desired: DesiredState, overrides: Overrides, history: History, keep_previous: bool, follow_stable: bool
) -> _Plan:
    """A frozen state stands for the desired one; blocked versions leave; a pinned one joins and takes label `stable`;
    with `keep_previous` the one that serves and the one before it stay."""
    base = overrides.freeze.desired if overrides.freeze else desired
    versions: _Versions = {**base.unusable, **{one.version: one for one in base.versions}}
    blocked = [one for one in base.versions if overrides.block_of(one) is not None]
    for gone in blocked:
        del versions[gone.version]
    labels = {label: number for label, number in base.labels.items() if number not in {one.version for one in blocked}}
    wanted = STABLE in labels
    if blocked and (STABLE in base.labels or max(base.numbers) in {one.version for one in blocked}):
        _stand_in(versions, labels, _heir(overrides, history))
    steered = STABLE in labels and (follow_stable or not wanted)
    pinned = overrides.pin.version if overrides.pin else None
    if pinned is not None and overrides.block_of(pinned) is None:
        versions.setdefault(pinned.version, pinned)
        labels[STABLE], steered = pinned.version, True
    any_left = bool(versions)
    kept = _kept(versions, steered, overrides, history) if keep_previous else {}
    stopped = [history.serving] if history.serving is not None else [] if any_left else blocked
    return _Plan(
        base,
        {**versions, **kept},
        labels,
        frozenset(kept),
        _disabled(desired.servable, overrides, stopped, any_left),
        steered,
    )


def _heir(overrides: Overrides, history: History) -> VersionReference | None:
    """What takes the place of a blocked version: what serves, or served before, or is remembered with the block."""
    line = (history.serving, history.previous(overrides), *(block.instead for block in overrides.blocks))
    return next((one for one in line if one is not None and overrides.block_of(one) is None), None)


def _stand_in(versions: _Versions, labels: dict[str, int], heir: VersionReference | None) -> None:
    """A blocked version has left that ordinary requests were meant for: the heir takes its place, also where it has to
    be loaded first, because what else is desired may be a candidate that nobody has tried; else the newest of those
    that are left."""
    if heir is not None and (STABLE not in labels or all(isinstance(one, TidegateError) for one in versions.values())):
        versions[heir.version] = heir
    usable = [number for number, version in versions.items() if not isinstance(version, TidegateError)]
    if usable and STABLE not in labels:
        labels[STABLE] = max(usable) if heir is None else heir.version


def _kept(versions: _Versions, steered: bool, overrides: Overrides, history: History) -> _Versions:
    """Never one that ordinary requests would go to because it is newer than all that is desired."""
    return {
        one.version: one
        for one in (history.serving, history.previous(overrides))
        if one is not None and versions and one.version not in versions and overrides.block_of(one) is None
        if steered or one.version < max(versions)
    }


def _disabled(name: str, overrides: Overrides, stopped: list[VersionReference], any_left: bool) -> str:
    """Why no request is answered, empty where they are. `stopped`: what serves, or, where nothing does and nothing is
    left, what would if it were not blocked."""
    if (note := overrides.disabled) is not None:
        return note.words
    for one in stopped:
        if (block := overrides.block_of(one)) is not None:
            rest = "another is being loaded" if any_left else "there is no other: publish one, or unblock it"
            return f"{name}:{one.version} was blocked: {block.note.reason}; {rest}"
    return ""


def _place(plan: _Plan, loaded: frozenset[int], before: ModelTraffic) -> tuple[dict[str, int], int | None]:
    """Where labels and ordinary traffic go now: each to its version where that is loaded, else where it was as long as
    that is. Where ordinary traffic follows label `stable`, that was where the traffic was, also without that label."""
    labels = {}
    for label, number in plan.labels.items():
        was = before.ordinary if label == STABLE and plan.steered else before.labels.get(label)
        if number in loaded:
            labels[label] = number
        elif was is not None and was in loaded:
            labels[label] = was
    if plan.steered:
        return labels, labels.get(STABLE)
    there = loaded & plan.numbers - plan.kept
    if not there and before.ordinary in loaded:
        return labels, before.ordinary
    return labels, max(there or loaded, default=None)


def _aspired(name: str, number: int, version: VersionReference | TidegateError) -> AspiredVersion[VersionReference]:
    if isinstance(version, TidegateError):
        return AspiredVersion(ServableId(name, number), None, version)
    return AspiredVersion(ServableId(name, number), version)
