"""What operators can decide about a servable, as pure functions: its overrides afterwards, and the outcome in words.

An engine calls them with what it knows of its own servable, a fleet's controller with what is in etcd. Asking for what
is so already changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidegate_serving.contract.desired_state import STABLE, DesiredState, Split, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput
from tidegate_serving.control.overrides import Block, Freeze, Note, Outcome, Overrides, Pin, SplitOverride
from tidegate_serving.journal.entry import MOST_WHO, Entry, Kind

MOST_WHY = 4000
Decided = tuple[Overrides, Outcome]


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

    def check_named(self) -> None:
        """InvalidInput where nobody is named: a decision has to be somebody's."""
        if not self.requested_by:
            raise InvalidInput("nobody is named who asks: say who in requested_by")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is so when somebody decides: `desired` is what a freeze keeps, `live` the versions to have loaded, `serving`
    the version of ordinary requests, None for none, and `served` those that they had before, oldest first."""

    name: str
    overrides: Overrides
    desired: DesiredState
    live: frozenset[int]
    serving: int | None
    served: tuple[VersionReference, ...]


def pinned(facts: Facts, requester: Requester, version: VersionReference) -> Decided:
    """Ordinary traffic stays on this version whatever sources say; a split ends. FailedPrecondition for one that is
    blocked."""
    overrides, number = _thawed(facts), version.version
    if (block := overrides.block_of(version)) is not None:
        raise FailedPrecondition(
            f"{facts.name}:{number} was blocked ({block.note.reason}): unblock it first, or name another"
        )
    before = None if facts.serving == number else facts.serving
    outcome = Outcome(f"ordinary traffic of {facts.name} stays on version {number}", True, before, number)
    if overrides.pin is not None and overrides.pin.version == version:
        return overrides, outcome
    return replace(overrides, pin=Pin(version, requester.note()), split=None), outcome


def unpinned(facts: Facts, _requester: Requester) -> Decided:
    """Ordinary traffic follows the servable's source again."""
    outcome = Outcome(f"ordinary traffic of {facts.name} follows its source again", True)
    return replace(_thawed(facts), pin=None), outcome


def frozen(facts: Facts, requester: Requester) -> Decided:
    """Pushes and other decisions are refused, what other sources say is held back; the kill switch works."""
    freeze = facts.overrides.freeze or Freeze(facts.desired, requester.note())
    return replace(facts.overrides, freeze=freeze), Outcome(f"{facts.name} is frozen as it is", True)


def unfrozen(facts: Facts, _requester: Requester) -> Decided:
    """Changes are let in again, those held back at once."""
    return replace(facts.overrides, freeze=None), Outcome(f"{facts.name} may change again", True)


def disabled(facts: Facts, requester: Requester) -> Decided:
    """The kill switch: every request is refused with the reason; versions stay loaded."""
    note = facts.overrides.disabled or requester.note()
    return replace(facts.overrides, disabled=note), Outcome(f"{facts.name} answers no request", True)


def enabled(facts: Facts, _requester: Requester) -> Decided:
    """Requests are answered again."""
    return replace(facts.overrides, disabled=None), Outcome(f"{facts.name} answers again", True)


def divided(facts: Facts, requester: Requester, shares: Mapping[int, float], key: str, until_us: int = 0) -> Decided:
    """Divides ordinary traffic, until `until_us` where that is set; without shares a split ends. FailedPrecondition
    where the servable is pinned, InvalidInput for shares that do not make 1 or versions that nobody wants live."""
    overrides, name = _thawed(facts), facts.name
    if not shares:
        return replace(overrides, split=None), Outcome(f"{name} is split no more", True)
    split = Split(dict(sorted(shares.items())), key)
    if (pin := overrides.pin) is not None:
        raise FailedPrecondition(
            f"ordinary traffic of {name!r} is pinned to version {pin.version.version} by {pin.note.requested_by}: "
            f"run `tidegate unpin {name}` first"
        )
    if strangers := sorted(split.shares.keys() - facts.live):
        raise InvalidInput(
            f"the split of {name!r} names version {strangers[0]}, which nobody wants live "
            f"(live: {', '.join(map(str, sorted(facts.live))) or 'none'}): push it first"
        )
    outcome = Outcome(f"ordinary traffic of {name} is {split}", True)
    if (before := overrides.split) is not None and (before.split, before.until_us) == (split, until_us):
        return overrides, outcome
    return replace(overrides, split=SplitOverride(split, requester.note(), until_us)), outcome


def blocked(facts: Facts, requester: Requester, version: VersionReference) -> Decided:
    """A version must not serve, now or later; a pin or split that names it ends. What served before takes its place."""
    overrides, number = facts.overrides, version.version
    said = f"{facts.name}:{number} must not serve"
    if overrides.block_of(version) is not None:
        return overrides, Outcome(said, True, to_version=number)
    others = [one for one in facts.served if overrides.block_of(one) is None]
    instead = next((one for one in reversed(others) if one.fingerprint != version.fingerprint), None)
    pin, split = overrides.pin, overrides.split
    if facts.serving == number:
        usable = tuple(one for one in facts.desired.versions if overrides.block_of(one) is None)
        said += _then(_place_of(number, replace(facts.desired, versions=usable), instead))
    outcome = Outcome(said, True, to_version=number)
    return replace(
        overrides,
        blocks=(*overrides.blocks, Block(number, version.fingerprint, requester.note(), instead)),
        pin=None if pin and pin.version.fingerprint == version.fingerprint else pin,
        split=None if split and number in split.split.shares else split,
    ), outcome


def _place_of(number: int, desired: DesiredState, before: VersionReference | None) -> int | None:
    """What ordinary requests get once this version is blocked: what is desired for them where only a pin kept them off
    it, else what served before, else the newest that is left."""
    if desired.stable != number and desired.version(desired.stable) is not None:
        return desired.stable
    if before is not None:
        return before.version
    return max((one.version for one in desired.versions if one.version != number), default=None)


def _then(heir: int | None) -> str:
    if heir is None:
        return "; no request is answered until another version is pushed, or this one is unblocked"
    return f"; version {heir} takes its place as soon as it is loaded, and until then no request is answered"


def unblocked(facts: Facts, _requester: Requester, version: int) -> Decided:
    """A blocked version may serve again, if its source still wants it."""
    overrides = _thawed(facts)
    left = tuple(one for one in overrides.blocks if one.version != version)
    outcome = Outcome(f"{facts.name}:{version} may serve again", True, to_version=version)
    return replace(overrides, blocks=left), outcome


def as_it_was(outcome: Outcome) -> Outcome:
    """Of a decision that changed nothing."""
    return replace(outcome, sentence=f"{outcome.sentence}, as it was already", changed=False)


def decision_entry(requester: Requester, action: str, outcome: Outcome) -> Entry:
    """As the journal has a decision."""
    name, by, why = requester.servable, requester.requested_by, requester.reason
    return Entry(Kind.CONTROL, action, outcome.sentence, name, outcome.to_version, by, why)


def check_permitted(desired: DesiredState, overrides: Overrides, present: DesiredState) -> None:
    """FailedPrecondition where a desired state that somebody pushes goes against a decision: the servable is frozen, or
    a blocked version comes, or gets a label or the shadow. One that is desired already may stay beside others, so that
    what is to replace it can be pushed; it does not serve."""
    name = desired.servable
    check_thawed(name, overrides)
    for block in filter(None, map(overrides.block_of, desired.versions)):
        if not _gains(desired, present, block.version):
            continue
        raise FailedPrecondition(
            f"{name}:{block.version} was blocked by {block.note.requested_by} ({block.note.reason}): "
            f"publish a new version, or run `tidegate unblock {name} {block.version}`"
        )


def _gains(desired: DesiredState, present: DesiredState, number: int) -> bool:
    """Whether a version is new, or gets a label or the shadow. Label `stable` on what is the ordinary version without
    it, as a push beside it writes that, gives it nothing."""
    before, after = present.version(number), desired.version(number)
    if before is None or after is None or before.fingerprint != after.fingerprint:
        return True
    had = {label for label, target in present.labels.items() if target == number}
    had |= {STABLE} if present.stable == number else set()
    labels = {label for label, target in desired.labels.items() if target == number}
    shadowed, was = (one.shadow is not None and one.shadow.version == number for one in (desired, present))
    return bool(labels - had) or (shadowed and not was)


def check_thawed(name: str, overrides: Overrides) -> None:
    """FailedPrecondition where the servable is frozen."""
    if (freeze := overrides.freeze) is not None:
        why = f" ({freeze.note.reason})" if freeze.note.reason else ""
        raise FailedPrecondition(
            f"model {name!r} was frozen by {freeze.note.requested_by}{why}: nothing changes until "
            f"`tidegate unfreeze {name}`"
        )


def _thawed(facts: Facts) -> Overrides:
    check_thawed(facts.name, facts.overrides)
    return facts.overrides
