"""What operators can decide about a servable while it serves: pin, freeze, kill switch, split, block, and the way back.

The control port hands requests in. Each decision is kept on disk and in the journal, with who and why, before it is
answered; asking for what is so already changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidegate_serving.contract.desired_state import DesiredState, Split, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, NotFound
from tidegate_serving.contract.servable import check_name
from tidegate_serving.control.locate import Locator
from tidegate_serving.control.overrides import Block, Freeze, Note, Outcome, Overrides, Pin, SplitOverride
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.journal.entry import Entry, Kind
from tidegate_serving.journal.journal import Journal

MOST_WHO = 200
MOST_WHY = 4000
Change = Callable[[Overrides], Overrides]


@dataclass(frozen=True, slots=True)
class Requester:
    """Who wants something of which servable, and why. InvalidInput for words that are too many to be kept."""

    servable: str
    requested_by: str
    reason: str = ""

    def __post_init__(self) -> None:
        for key, most in (("requested_by", MOST_WHO), ("reason", MOST_WHY)):
            if len(getattr(self, key)) > most:
                raise InvalidInput(f"{key} has {len(getattr(self, key))} characters: use {most} or less")

    def note(self) -> Note:
        """As it is kept."""
        return Note(self.requested_by, self.reason, time.time_ns() // 1000)


class Operations:
    """Decisions about single servables."""

    def __init__(self, reconciler: Reconciler, locator: Locator, journal: Journal) -> None:
        self._reconciler = reconciler
        self._locator = locator
        self._journal = journal

    def pin(self, requester: Requester, version: int, action: str = "pin") -> Outcome:
        """Ordinary traffic stays on this version whatever sources say. It is loaded where it is not, and the present
        one serves until then. A split ends."""
        name = self._free(requester)
        found = self._locator.version(name, version)
        self._check_unblocked(name, found)
        serving = self._reconciler.routing(name).serving

        def change(overrides: Overrides) -> Overrides:
            if overrides.pin is not None and overrides.pin.version == found:
                return overrides
            return replace(overrides, pin=Pin(found, requester.note()), split=None)

        before = serving.version if serving is not None and serving.version != version else None
        outcome = Outcome(f"ordinary traffic of {name} stays on version {version}", True, before, version)
        return self._decide(requester, action, change, outcome)

    def unpin(self, requester: Requester) -> Outcome:
        """Ordinary traffic follows the servable's source again."""
        name = self._free(requester)
        outcome = Outcome(f"ordinary traffic of {name} follows its source again", True)
        return self._decide(requester, "unpin", lambda overrides: replace(overrides, pin=None), outcome)

    def freeze(self, requester: Requester) -> Outcome:
        """Pushes and other decisions are refused, what other sources say is held back; the kill switch works."""
        name = self._known(requester)

        def change(overrides: Overrides) -> Overrides:
            desired = self._reconciler.desired(name)
            usable = tuple(one for one in desired.versions if overrides.block_of(one) is None)
            frozen = replace(desired, versions=usable, unusable={})
            return replace(overrides, freeze=overrides.freeze or Freeze(frozen, requester.note()))

        return self._decide(requester, "freeze", change, Outcome(f"{name} is frozen as it is", True))

    def unfreeze(self, requester: Requester) -> Outcome:
        """Changes are let in again, those held back at once."""
        outcome = Outcome(f"{self._known(requester)} may change again", True)
        return self._decide(requester, "unfreeze", lambda overrides: replace(overrides, freeze=None), outcome)

    def disable(self, requester: Requester) -> Outcome:
        """The kill switch: every request is refused with the reason; versions stay loaded. Works on a full disk too,
        and then says that it will be forgotten."""
        outcome = Outcome(f"{self._known(requester)} answers no request", True)

        def change(overrides: Overrides) -> Overrides:
            return replace(overrides, disabled=overrides.disabled or requester.note())

        return self._decide(requester, "disable", change, outcome, even_if_lost=True)

    def enable(self, requester: Requester) -> Outcome:
        """Requests are answered again."""
        outcome = Outcome(f"{self._known(requester)} answers again", True)
        return self._decide(requester, "enable", lambda overrides: replace(overrides, disabled=None), outcome)

    def split(self, requester: Requester, shares: Mapping[int, float], key: str) -> Outcome:
        """Divides ordinary traffic; without shares it ends. FailedPrecondition where the servable is pinned,
        InvalidInput for shares that do not make 1 or versions that nobody wants live."""
        name = self._free(requester)
        split = Split(dict(sorted(shares.items())), key) if shares else None
        if split is not None:
            self._check_split(name, split)

        def change(overrides: Overrides) -> Overrides:
            if split is not None and overrides.split is not None and overrides.split.split == split:
                return overrides
            return replace(overrides, split=None if split is None else SplitOverride(split, requester.note()))

        sentence = f"{name} is split no more" if split is None else f"ordinary traffic of {name} is {split}"
        return self._decide(requester, "split", change, Outcome(sentence, True))

    def block(self, requester: Requester, version: int) -> Outcome:
        """A version must not serve, now or later. The one that served before takes its place, or another that is
        desired; until that has come, and where there is none, no request is answered."""
        name = self._known(requester)
        found = self._locator.version(name, version)

        def change(overrides: Overrides) -> Overrides:
            if overrides.block_of(found) is not None:
                return overrides
            served = self._reconciler.routing(name).history.served
            instead = next((one for one in reversed(served) if one.fingerprint != found.fingerprint), None)
            block = Block(version, found.fingerprint, requester.note(), instead)
            pin, split = overrides.pin, overrides.split
            return replace(
                overrides,
                blocks=(*overrides.blocks, block),
                pin=None if pin and pin.version.fingerprint == found.fingerprint else pin,
                split=None if split and version in split.split.shares else split,
            )

        outcome = Outcome(f"{name}:{version} must not serve", True, to_version=version)
        return self._decide(requester, "block", change, outcome, even_if_lost=True)

    def unblock(self, requester: Requester, version: int) -> Outcome:
        """A blocked version may serve again, if its source still wants it."""
        name = self._free(requester)

        def change(overrides: Overrides) -> Overrides:
            return replace(overrides, blocks=tuple(one for one in overrides.blocks if one.version != version))

        outcome = Outcome(f"{name}:{version} may serve again", True, to_version=version)
        return self._decide(requester, "unblock", change, outcome)

    def replace_overrides(self, requester: Requester, overrides: Overrides) -> Outcome:
        """What a fleet decided counts, in place of all that was decided here, also of a servable that is still to come.
        Counts on a full disk too, as `disable`."""
        if not requester.requested_by:
            raise InvalidInput("nobody is named who asks: say who in requested_by")
        outcome = Outcome(f"{check_name(requester.servable)} has the overrides of its fleet", True)
        return self._decide(requester, "overrides", lambda before: overrides, outcome, even_if_lost=True)

    def permit(self, desired: DesiredState) -> None:
        """FailedPrecondition where a desired state that somebody pushes goes against a decision."""
        name = desired.servable
        self._check_thawed(name)
        overrides = self._reconciler.overrides(name)
        for block in filter(None, map(overrides.block_of, desired.versions)):
            raise FailedPrecondition(
                f"{name}:{block.version} was blocked by {block.note.requested_by} ({block.note.reason}): "
                f"publish a new version, or run `tidegate unblock {name} {block.version}`"
            )

    def _decide(
        self, requester: Requester, action: str, change: Change, outcome: Outcome, even_if_lost: bool = False
    ) -> Outcome:
        name, version = requester.servable, outcome.to_version
        by, why = requester.requested_by, requester.reason
        entry = Entry(Kind.CONTROL, action, outcome.sentence, name, version, by, why)
        before = self._reconciler.overrides(name)
        try:
            changed = self._reconciler.decide(name, change, even_if_lost=even_if_lost)
        except Exception:
            if self._reconciler.overrides(name) != before:
                self._journal.add(entry)
            raise
        if changed:
            self._journal.add(entry)
            return outcome
        return replace(outcome, sentence=f"{outcome.sentence}, as it was already", changed=False)

    def _known(self, requester: Requester) -> str:
        if not requester.requested_by:
            raise InvalidInput("nobody is named who asks: say who in requested_by")
        if not self._reconciler.knows(requester.servable):
            raise NotFound(f"the engine knows no servable {requester.servable!r}: see `tidegate status`")
        return requester.servable

    def _free(self, requester: Requester) -> str:
        """Known, and not frozen."""
        name = self._known(requester)
        self._check_thawed(name)
        return name

    def _check_thawed(self, name: str) -> None:
        freeze = self._reconciler.overrides(name).freeze
        if freeze is not None:
            why = f" ({freeze.note.reason})" if freeze.note.reason else ""
            raise FailedPrecondition(
                f"servable {name!r} was frozen by {freeze.note.requested_by}{why}: nothing changes until "
                f"`tidegate unfreeze {name}`"
            )

    def _check_unblocked(self, name: str, found: VersionReference) -> None:
        block = self._reconciler.overrides(name).block_of(found)
        if block is not None:
            raise FailedPrecondition(
                f"{name}:{found.version} was blocked ({block.note.reason}): unblock it first, or name another"
            )

    def _check_split(self, name: str, split: Split) -> None:
        pin = self._reconciler.overrides(name).pin
        if pin is not None:
            raise FailedPrecondition(
                f"ordinary traffic of {name!r} is pinned to version {pin.version.version} by "
                f"{pin.note.requested_by}: run `tidegate unpin {name}` first"
            )
        live = self._reconciler.routing(name).numbers
        strangers = sorted(split.shares.keys() - live)
        if strangers:
            raise InvalidInput(
                f"the split of {name!r} names version {strangers[0]}, which nobody wants live "
                f"(live: {', '.join(map(str, sorted(live))) or 'none'}): push it first"
            )
