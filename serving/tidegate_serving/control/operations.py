"""What people can decide about a servable while it serves: pin, freeze, kill switch, split, block, and the way back.

The control port hands requests in. Each decision is kept on disk and in the journal, with who and why, before it is
answered; asking for what is so already changes nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, NotFound
from tidegate_serving.control.locate import Locator
from tidegate_serving.control.overrides import Blocked, Frozen, KnownVersion, Note, Orders, Pinned, SplitRule
from tidegate_serving.control.reconciler import Steering
from tidegate_serving.journal.entry import Entry, Kind
from tidegate_serving.journal.journal import Journal

MOST_WHO = 200
MOST_WHY = 4000
_SUM_TOLERANCE = 1e-6
_KEY = re.compile(r"[A-Za-z0-9_.-]+\Z")
Change = Callable[[Orders], Orders]


@dataclass(frozen=True, slots=True)
class Asked:
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


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it, in words; `changed` is False where it was so already. `to_version`: the version that it is
    about, `from_version`: the one that ordinary clients had before, where that matters."""

    sentence: str
    changed: bool
    from_version: int | None = None
    to_version: int | None = None


class Controls:
    """Decisions about single servables."""

    def __init__(self, steering: Steering, locator: Locator, journal: Journal) -> None:
        self._steering = steering
        self._locator = locator
        self._journal = journal

    def pin(self, asked: Asked, version: int, action: str = "pin") -> Done:
        """Ordinary traffic stays on this version whatever sources propose. It is loaded where it is not, and the
        present one serves until then. A split ends."""
        name = self._free(asked)
        found = self._locator.version(name, version)
        self._check_unblocked(name, found)
        serving = self._steering.serving(name)

        def change(orders: Orders) -> Orders:
            if orders.pinned is not None and orders.pinned.version == found:
                return orders
            return replace(orders, pinned=Pinned(found, asked.note()), split=None)

        before = serving.version if serving is not None and serving.version != version else None
        done = f"ordinary traffic of {name} stays on version {version}"
        return self._decide(asked, action, change, Done(done, True, before, version))

    def unpin(self, asked: Asked) -> Done:
        """Ordinary traffic follows the servable's source again."""
        self._free(asked)
        done = f"ordinary traffic of {asked.servable} follows its source again"
        return self._decide(asked, "unpin", lambda orders: replace(orders, pinned=None), Done(done, True))

    def freeze(self, asked: Asked) -> Done:
        """Pushes and other decisions are refused, what other sources propose is held back; the kill switch works."""
        name = self._known(asked)
        proposal, orders = self._steering.proposal(name), self._steering.orders(name)
        usable = [v for v in proposal.versions if v.payload is not None and not orders.blocks_version(v)]
        versions = tuple(KnownVersion(v.id.version, v.payload) for v in usable if v.payload is not None)

        def change(orders: Orders) -> Orders:
            frozen = orders.frozen or Frozen(versions, dict(proposal.labels), asked.note())
            return replace(orders, frozen=frozen)

        return self._decide(asked, "freeze", change, Done(f"{name} is frozen as it is", True))

    def unfreeze(self, asked: Asked) -> Done:
        """Changes are let in again, those held back at once."""
        name = self._known(asked)
        done = Done(f"{name} may change again", True)
        return self._decide(asked, "unfreeze", lambda orders: replace(orders, frozen=None), done)

    def disable(self, asked: Asked) -> Done:
        """The kill switch: every request is refused with the reason; versions stay loaded. Works on a full disk too,
        and then says that it will be forgotten."""
        name = self._known(asked)

        def change(orders: Orders) -> Orders:
            return replace(orders, disabled=orders.disabled or asked.note())

        return self._decide(asked, "disable", change, Done(f"{name} answers no request", True), even_if_lost=True)

    def enable(self, asked: Asked) -> Done:
        """Requests are answered again."""
        name = self._known(asked)
        done = Done(f"{name} answers again", True)
        return self._decide(asked, "enable", lambda orders: replace(orders, disabled=None), done)

    def split(self, asked: Asked, shares: Mapping[int, float], key: str) -> Done:
        """Divides ordinary traffic; without shares it ends. FailedPrecondition where the servable is pinned,
        InvalidInput for shares that do not make 1 or versions that nobody wants live."""
        name = self._free(asked)
        rule = SplitRule(dict(sorted(shares.items())), key, asked.note()) if shares else None
        if rule is not None:
            self._check_split(name, rule)

        def change(orders: Orders) -> Orders:
            now = orders.split
            same = now is not None and rule is not None and (now.shares, now.key) == (rule.shares, rule.key)
            return orders if same else replace(orders, split=rule)

        words = ", ".join(f"{share:.4g} to {version}" for version, share in sorted(shares.items()))
        by = f" by {key}" if key else ""
        done = f"ordinary traffic of {name} is split{by}: {words}" if shares else f"{name} is split no more"
        return self._decide(asked, "split", change, Done(done, True))

    def block(self, asked: Asked, version: int) -> Done:
        """A version must not serve, now or later. The one that served before takes its place, or another that is
        wanted; until that has come, and where there is none, no request is answered."""
        name = self._known(asked)
        found = self._locator.version(name, version)

        def change(orders: Orders) -> Orders:
            if orders.blocks(found):
                return orders
            pinned = None if orders.pinned and orders.pinned.version.token == found.token else orders.pinned
            split = None if orders.split and version in orders.split.shares else orders.split
            instead = next((known for known in reversed(orders.served) if known.token != found.token), None)
            blocked = (*orders.blocked, Blocked(version, found.token, asked.note(), instead))
            return replace(orders, blocked=blocked, pinned=pinned, split=split)

        done = Done(f"{name}:{version} must not serve", True, to_version=version)
        return self._decide(asked, "block", change, done, even_if_lost=True)

    def unblock(self, asked: Asked, version: int) -> Done:
        """A blocked version may serve again, if its source still wants it."""
        name = self._free(asked)

        def change(orders: Orders) -> Orders:
            return replace(orders, blocked=tuple(b for b in orders.blocked if b.version != version))

        return self._decide(
            asked, "unblock", change, Done(f"{name}:{version} may serve again", True, to_version=version)
        )

    def permit(self, name: str, versions: Mapping[int, str]) -> None:
        """FailedPrecondition where a push of these versions (manifest digests by number) goes against a decision."""
        self._check_thawed(name)
        for blocked in self._steering.orders(name).blocked:
            if versions.get(blocked.version) == blocked.token:
                raise FailedPrecondition(
                    f"{name}:{blocked.version} was blocked by {blocked.note.requested_by} ({blocked.note.reason}): "
                    f"publish a new version, or run `tidegate unblock {name} {blocked.version}`"
                )

    def _decide(self, asked: Asked, action: str, change: Change, done: Done, even_if_lost: bool = False) -> Done:
        entry = Entry(
            Kind.CONTROL,
            action,
            done.sentence,
            asked.servable,
            done.to_version,
            asked.requested_by,
            asked.reason,
        )
        before = self._steering.orders(asked.servable)
        try:
            changed = self._steering.decide(asked.servable, change, even_if_lost=even_if_lost)
        except Exception:
            if self._steering.orders(asked.servable) != before:
                self._journal.add(entry)
            raise
        if changed:
            self._journal.add(entry)
            return done
        return replace(done, sentence=f"{done.sentence}, as it was already", changed=False)

    def _known(self, asked: Asked) -> str:
        if not asked.requested_by:
            raise InvalidInput("nobody is named who asks: say who in requested_by")
        if not self._steering.knows(asked.servable):
            raise NotFound(f"the engine knows no servable {asked.servable!r}: see `tidegate status`")
        return asked.servable

    def _free(self, asked: Asked) -> str:
        """Known, and not frozen."""
        name = self._known(asked)
        self._check_thawed(name)
        return name

    def _check_thawed(self, name: str) -> None:
        frozen = self._steering.orders(name).frozen
        if frozen is not None:
            why = f" ({frozen.note.reason})" if frozen.note.reason else ""
            raise FailedPrecondition(
                f"servable {name!r} was frozen by {frozen.note.requested_by}{why}: nothing changes until "
                f"`tidegate unfreeze {name}`"
            )

    def _check_unblocked(self, name: str, found: KnownVersion) -> None:
        orders = self._steering.orders(name)
        if orders.blocks(found):
            raise FailedPrecondition(
                f"{name}:{found.version} was blocked ({orders.why_blocked(found)}): unblock it first, or name another"
            )

    def _check_split(self, name: str, rule: SplitRule) -> None:
        orders = self._steering.orders(name)
        if orders.pinned is not None:
            raise FailedPrecondition(
                f"ordinary traffic of {name!r} is pinned to version {orders.pinned.version.version} by "
                f"{orders.pinned.note.requested_by}: run `tidegate unpin {name}` first"
            )
        live = self._steering.course(name).numbers
        strangers = sorted(set(rule.shares) - live)
        if strangers:
            raise InvalidInput(
                f"the split of {name!r} names version {strangers[0]}, which nobody wants live "
                f"(live: {', '.join(map(str, sorted(live))) or 'none'}): push it first"
            )
        if rule.key and not _KEY.match(rule.key):
            raise InvalidInput(f"the split of {name!r} goes by {rule.key!r}: name a metadata key such as x-user-id")
        wrong = any(not 0 <= share <= 1 for share in rule.shares.values())
        if wrong or abs(sum(rule.shares.values()) - 1) > _SUM_TOLERANCE:
            raise InvalidInput(f"the split of {name!r} is {dict(rule.shares)}: use shares from 0 to 1 that make 1")
