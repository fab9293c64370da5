"""What operators decided about one servable, against what its sources want: pin, freeze, kill switch, split, blocks.

Operations make a new value for each decision, the store keeps it across restarts, and routing obeys it. Beside it
stands the history of ordinary traffic, which a rollback goes back along.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate_serving.contract.desired_state import DesiredState, Split, VersionReference
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.formats import MALFORMED

SERVED_KEPT = 8


@dataclass(frozen=True, slots=True)
class Note:
    """Who decided, why, and when (Unix microseconds)."""

    requested_by: str
    reason: str
    at_us: int

    @property
    def words(self) -> str:
        """Why, and by whom, as whoever is refused for it reads it."""
        by = f" (by {self.requested_by})" if self.requested_by else ""
        return f"{self.reason or 'no reason given'}{by}"


@dataclass(frozen=True, slots=True)
class Pin:
    """Ordinary traffic stays on this version, whatever sources say."""

    version: VersionReference
    note: Note


@dataclass(frozen=True, slots=True)
class Freeze:
    """Nothing changes: this stays the desired state, whatever sources say."""

    desired: DesiredState
    note: Note


@dataclass(frozen=True, slots=True)
class SplitOverride:
    """Ordinary traffic is divided between versions, until `until_us` in Unix microseconds, 0 for as long as nobody ends
    it."""

    split: Split
    note: Note
    until_us: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """A version that must not serve, by number and `VersionReference.fingerprint`. `instead`: what served before it, to
    take its place where nothing else is desired."""

    version: int
    fingerprint: str
    note: Note
    instead: VersionReference | None = None


@dataclass(frozen=True, slots=True)
class Overrides:
    """Everything that is decided about one servable now."""

    pin: Pin | None = None
    freeze: Freeze | None = None
    disabled: Note | None = None
    split: SplitOverride | None = None
    blocks: tuple[Block, ...] = ()

    def block_of(self, version: VersionReference) -> Block | None:
        """The block that keeps a version from serving, or None."""
        return next((block for block in self.blocks if block.fingerprint == version.fingerprint), None)

    def references(self) -> Iterator[VersionReference]:
        """Every version that a decision names."""
        yield from self.freeze.desired.versions if self.freeze else ()
        yield from (self.pin.version,) if self.pin else ()
        yield from (block.instead for block in self.blocks if block.instead is not None)

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it."""
        split, freeze, pin = self.split, self.freeze, self.pin
        return {
            "pin": pin and {"version": pin.version.to_dict(), "note": asdict(pin.note)},
            "freeze": freeze and {"desired": freeze.desired.to_dict(), "note": asdict(freeze.note)},
            "disabled": self.disabled and asdict(self.disabled),
            "split": split
            and {
                "shares": {str(version): share for version, share in split.split.shares.items()},
                "key": split.split.key,
                "note": asdict(split.note),
                "until_us": split.until_us,
            },
            "blocks": [
                {
                    "version": block.version,
                    "fingerprint": block.fingerprint,
                    "note": asdict(block.note),
                    "instead": block.instead and block.instead.to_dict(),
                }
                for block in self.blocks
            ],
        }

    @classmethod
    def from_json(cls, text: str) -> Overrides:
        """As another process sent them; InvalidInput for what makes none."""
        try:
            return cls.from_dict(json.loads(text))
        except (*MALFORMED, InvalidInput) as error:
            raise InvalidInput(f"these are no overrides ({error}): use a controller of the engine's version") from error

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Overrides:
        """Raises KeyError, TypeError, ValueError or InvalidInput for values that make none."""
        pin, freeze, split = data["pin"], data["freeze"], data["split"]
        return cls(
            pin=pin and Pin(VersionReference.from_dict(pin["version"]), Note(**pin["note"])),
            freeze=freeze and Freeze(DesiredState.from_dict(freeze["desired"]), Note(**freeze["note"])),
            disabled=data["disabled"] and Note(**data["disabled"]),
            split=split
            and SplitOverride(
                Split({int(version): float(share) for version, share in split["shares"].items()}, split["key"]),
                Note(**split["note"]),
                split["until_us"],
            ),
            blocks=tuple(_block(block) for block in data["blocks"]),
        )


def _block(data: Mapping[str, Any]) -> Block:
    instead = data["instead"] and VersionReference.from_dict(data["instead"])
    return Block(data["version"], data["fingerprint"], Note(**data["note"]), instead)


NO_OVERRIDES = Overrides()


@dataclass(frozen=True, slots=True)
class History:
    """Which versions ordinary traffic went to: `served` before the present one, the latest last, and `serving` now, or
    last where it goes nowhere now."""

    served: tuple[VersionReference, ...] = ()
    serving: VersionReference | None = None

    def moved_to(self, now: VersionReference) -> History:
        """After ordinary traffic went to a version: a step forward is remembered, one back is taken off."""
        numbers = [one.version for one in self.served]
        if self.serving is not None and self.serving.version == now.version:
            return replace(self, serving=now)
        if now.version in numbers:
            return History(self.served[: numbers.index(now.version)], now)
        if self.serving is None:
            return replace(self, serving=now)
        left = self.serving
        others = tuple(one for one in self.served if one.version != left.version)
        return History((*others, left)[-SERVED_KEPT:], now)

    def previous(self, overrides: Overrides) -> VersionReference | None:
        """The version that served before and is not blocked."""
        return next((one for one in reversed(self.served) if overrides.block_of(one) is None), None)


NO_HISTORY = History()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a decision, in words; `changed` is False where it was so already.

    `to_version` is the version that it is about, `from_version` the one that ordinary requests got before, where that
    matters.
    """

    sentence: str
    changed: bool
    from_version: int | None = None
    to_version: int | None = None
