"""What becomes of a servable, given what its sources propose and what people decided: one pure function.

Steering asks it at each change and tells the manager and the data plane what comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.overrides import KnownVersion, Orders, SplitRule
from tidegate_serving.control.status import Shadow
from tidegate_serving.sources.target import AspiredVersion, VersionPath

STABLE = "stable"
PathVersion = AspiredVersion[VersionPath]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a servable's source wants: versions, labels, shadow."""

    versions: tuple[PathVersion, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    shadow: Shadow | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """What is made so. `disabled`: why no request is answered, empty where they are. `kept`: versions that are there
    only so that a rollback takes effect at once."""

    versions: tuple[PathVersion, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    shadow: Shadow | None = None
    split: SplitRule | None = None
    disabled: str = ""
    kept: frozenset[int] = frozenset()

    @property
    def followed(self) -> frozenset[int]:
        """Versions that ordinary clients may be on."""
        return self.numbers - self.kept

    @property
    def numbers(self) -> frozenset[int]:
        """The version numbers."""
        return frozenset(version.id.version for version in self.versions)


def steer(name: str, proposal: Proposal, orders: Orders, serving: KnownVersion | None, keep_previous: bool) -> Course:
    """Frozen sets stand for proposals; blocked versions leave; a pinned one joins and takes label `stable`; with
    `keep_previous` the one that serves and the one before it stay. `serving` is what ordinary clients get now."""
    versions = {version.id.version: version for version in _base(name, proposal, orders)}
    labels = dict(orders.frozen.labels if orders.frozen else proposal.labels)
    gone = [KnownVersion(n, v.payload) for n, v in versions.items() if v.payload and orders.blocks_version(v)]
    for known in gone:
        del versions[known.version]
    labels = {label: number for label, number in labels.items() if number not in {known.version for known in gone}}
    if gone:
        line = (serving, orders.previous, *(blocked.instead for blocked in orders.blocked))
        heir = next((known for known in line if known is not None and not orders.blocks(known)), None)
        _stand_in(name, versions, labels, heir)
    pinned = orders.pinned.version if orders.pinned is not None else None
    if pinned is not None and not orders.blocks(pinned):
        versions.setdefault(pinned.version, aspired(name, pinned))
        labels[STABLE] = pinned.version
    kept = _kept(versions, labels, orders, serving) if keep_previous else []
    for known in kept:
        versions[known.version] = aspired(name, known)
    shadow = proposal.shadow if proposal.shadow is not None and proposal.shadow.version in versions else None
    return Course(
        versions=tuple(versions.values()),
        labels=labels,
        shadow=shadow,
        split=orders.split,
        disabled=_disabled(name, orders, [serving] if serving is not None or versions else gone, bool(versions)),
        kept=frozenset(known.version for known in kept),
    )


def aspired(name: str, known: KnownVersion) -> PathVersion:
    """A known version as sources want one."""
    return AspiredVersion(ServableId(name, known.version), known.path)


def _base(name: str, proposal: Proposal, orders: Orders) -> tuple[PathVersion, ...]:
    if orders.frozen is None:
        return proposal.versions
    return tuple(aspired(name, known) for known in orders.frozen.versions)


def _stand_in(name: str, versions: dict[int, PathVersion], labels: dict[str, int], heir: KnownVersion | None) -> None:
    """A blocked version has left: the heir takes its place, else the newest of those that are left."""
    if heir is not None and not any(version.error is None for version in versions.values()):
        versions[heir.version] = aspired(name, heir)
    usable = [number for number, version in versions.items() if version.error is None]
    if usable and STABLE not in labels:
        labels[STABLE] = heir.version if heir is not None and heir.version in usable else max(usable)


def _kept(
    versions: Mapping[int, PathVersion], labels: Mapping[str, int], orders: Orders, serving: KnownVersion | None
) -> list[KnownVersion]:
    """Never one that ordinary clients would land on because it is newer than all that is wanted."""
    if not versions:
        return []
    newest = max(versions)
    found: dict[int, KnownVersion] = {}
    for known in (serving, orders.previous):
        if known is None or known.version in versions or orders.blocks(known):
            continue
        if STABLE in labels or known.version < newest:
            found[known.version] = known
    return list(found.values())


def _disabled(name: str, orders: Orders, stopped: Sequence[KnownVersion | None], any_left: bool) -> str:
    """`stopped`: what serves, or, where nothing does and nothing is left, what would if it were not blocked."""
    if orders.disabled is not None:
        note = orders.disabled
        return f"servable '{name}' was switched off by {note.requested_by}: {note.reason or 'no reason given'}"
    blocked = next((known for known in stopped if known is not None and orders.blocks(known)), None)
    if blocked is not None:
        rest = "another is being loaded" if any_left else "there is no other: publish one, or unblock it"
        return f"{name}:{blocked.version} was blocked: {orders.why_blocked(blocked)}; {rest}"
    return ""
