"""What people decided about one servable, over the heads of its sources: pin, freeze, kill switch, split, blocks.

Controls make a new one for each decision; the store keeps it across restarts; steering obeys it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate_serving.sources.target import AspiredVersion, VersionPath

SERVED_KEPT = 8


@dataclass(frozen=True, slots=True)
class Note:
    """Who decided, why, and when (Unix microseconds)."""

    requested_by: str
    reason: str
    at_us: int


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A version with all that is needed to load it again."""

    version: int
    path: VersionPath

    @property
    def token(self) -> str:
        """What it is, whatever it is called: its manifest's digest, or its directory where it has no manifest."""
        return self.path.manifest_digest or str(self.path.directory)


@dataclass(frozen=True, slots=True)
class Pinned:
    """Ordinary traffic stays on this version, whatever sources propose."""

    version: KnownVersion
    note: Note


@dataclass(frozen=True, slots=True)
class Frozen:
    """Nothing changes: these versions and labels stay."""

    versions: tuple[KnownVersion, ...]
    labels: Mapping[str, int]
    note: Note


@dataclass(frozen=True, slots=True)
class SplitRule:
    """Ordinary traffic goes to several versions: shares by version, and the request header or metadata key whose hash
    decides; an empty key decides by request."""

    shares: Mapping[int, float]
    key: str
    note: Note


@dataclass(frozen=True, slots=True)
class Blocked:
    """A version that must not serve; `token` as in `KnownVersion`. `instead`: what served before it, to take its place
    where nothing else is wanted."""

    version: int
    token: str
    note: Note
    instead: KnownVersion | None = None


@dataclass(frozen=True, slots=True)
class Orders:
    """Everything decided about one servable. `served`: versions that ordinary clients got before the present one, the
    latest last; it is what a rollback goes back to. `serving`: the version that they get now, where what is to
    be hangs on it: one that nobody proposes, and that is kept for a rollback or takes a blocked one's place."""

    pinned: Pinned | None = None
    frozen: Frozen | None = None
    disabled: Note | None = None
    split: SplitRule | None = None
    blocked: tuple[Blocked, ...] = ()
    served: tuple[KnownVersion, ...] = ()
    serving: KnownVersion | None = None

    @property
    def previous(self) -> KnownVersion | None:
        """The version that served before and is not blocked."""
        return next((known for known in reversed(self.served) if not self.blocks(known)), None)

    def blocks(self, known: KnownVersion) -> bool:
        """Whether a version must not serve."""
        return any(blocked.token == known.token for blocked in self.blocked)

    def blocks_version(self, version: AspiredVersion[VersionPath]) -> bool:
        """The same of a version that a source wants."""
        return version.payload is not None and self.blocks(KnownVersion(version.id.version, version.payload))

    def why_blocked(self, known: KnownVersion) -> str:
        """The reason of a block, empty where there is none."""
        return next((blocked.note.reason for blocked in self.blocked if blocked.token == known.token), "")


NOTHING = Orders()


def with_served(orders: Orders, before: KnownVersion, now: int) -> Orders:
    """After ordinary clients went from one version to another: a step forward is remembered, one back is taken off."""
    numbers = [known.version for known in orders.served]
    if now in numbers:
        return replace(orders, served=orders.served[: numbers.index(now)])
    others = tuple(known for known in orders.served if known.version != before.version)
    return replace(orders, served=(*others, before)[-SERVED_KEPT:])


@dataclass(frozen=True, slots=True)
class OrdersDocument:
    """An orders as plain values, and back."""

    data: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, orders: Orders) -> OrdersDocument:
        """Ready for JSON: paths are text."""
        return cls(_plain(asdict(orders)))

    def orders(self) -> Orders:
        """Raises KeyError, TypeError or ValueError for values that make no orders."""
        data = self.data
        pinned, frozen, split, serving = data["pinned"], data["frozen"], data["split"], data.get("serving")
        return Orders(
            pinned=pinned and Pinned(_known(pinned["version"]), Note(**pinned["note"])),
            frozen=frozen
            and Frozen(tuple(map(_known, frozen["versions"])), dict(frozen["labels"]), Note(**frozen["note"])),
            disabled=data["disabled"] and Note(**data["disabled"]),
            split=split
            and SplitRule(
                {int(version): float(share) for version, share in split["shares"].items()},
                split["key"],
                Note(**split["note"]),
            ),
            blocked=tuple(_blocked(entry) for entry in data["blocked"]),
            served=tuple(map(_known, data["served"])),
            serving=serving and _known(serving),
        )


def _blocked(data: Mapping[str, Any]) -> Blocked:
    instead = data["instead"]
    return Blocked(data["version"], data["token"], Note(**data["note"]), instead and _known(instead))


def _known(data: Mapping[str, Any]) -> KnownVersion:
    path = dict(data["path"])
    path["directory"] = Path(path["directory"])
    return KnownVersion(int(data["version"]), VersionPath(**path))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
