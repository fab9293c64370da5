"""What operators can decide about a servable while it serves: pin, freeze, kill switch, split, block, and the way back.

The control port hands requests in. Each decision is kept on disk and in the journal, with who and why, before it is
answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import NotFound
from tidegate_serving.contract.servable import ServableId, check_name
from tidegate_serving.control import deciding
from tidegate_serving.control.deciding import (
    Decided,
    Facts,
    Requester,
    as_it_was,
    check_permitted,
    check_thawed,
    decision_entry,
)
from tidegate_serving.control.locate import Locator
from tidegate_serving.control.overrides import Outcome, Overrides
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.journal.journal import Journal
from tidegate_serving.sources.expiry import REQUESTED_BY, Ends, is_over, no_end, why_over

_Decide = Callable[[Facts], Decided]


class Operations:
    """Decisions about single servables; `ends` hears until when one counts."""

    def __init__(self, reconciler: Reconciler, locator: Locator, journal: Journal, ends: Ends = no_end) -> None:
        self._ends = ends
        self._reconciler = reconciler
        self._locator = locator
        self._journal = journal

    def pin(self, requester: Requester, version: int, action: str = "pin") -> Outcome:
        """Ordinary traffic stays on this version whatever sources say. It is loaded where it is not, and the present
        one serves until then. A split ends."""
        name = self._known(requester)
        check_thawed(name, self._reconciler.overrides(name))
        found = self._locator.version(name, version)
        return self._decide(requester, action, lambda facts: deciding.pinned(facts, requester, found))

    def unpin(self, requester: Requester) -> Outcome:
        """Ordinary traffic follows the servable's source again."""
        return self._decide(requester, "unpin", lambda facts: deciding.unpinned(facts, requester))

    def freeze(self, requester: Requester) -> Outcome:
        """Pushes and other decisions are refused, what other sources say is held back; the kill switch works."""
        return self._decide(requester, "freeze", lambda facts: deciding.frozen(facts, requester))

    def unfreeze(self, requester: Requester) -> Outcome:
        """Changes are let in again, those held back at once."""
        return self._decide(requester, "unfreeze", lambda facts: deciding.unfrozen(facts, requester))

    def disable(self, requester: Requester) -> Outcome:
        """The kill switch: every request is refused with the reason; versions stay loaded. Works on a full disk too,
        and then says that it will be forgotten."""
        return self._decide(requester, "disable", lambda facts: deciding.disabled(facts, requester), even_if_lost=True)

    def enable(self, requester: Requester) -> Outcome:
        """Requests are answered again."""
        return self._decide(requester, "enable", lambda facts: deciding.enabled(facts, requester))

    def split(self, requester: Requester, shares: Mapping[int, float], key: str, until_us: int = 0) -> Outcome:
        """Divides ordinary traffic, until `until_us` in Unix microseconds where that is set; without shares it ends.
        FailedPrecondition where the servable is pinned, InvalidInput for shares that do not make 1 or versions that
        nobody wants live."""
        outcome = self._decide(
            requester, "split", lambda facts: deciding.divided(facts, requester, shares, key, until_us)
        )
        self._ends(requester.servable, until_us)
        return outcome

    def end_split(self, name: str) -> None:
        """Ends the split of a servable whose time is over. FailedPrecondition while it is frozen."""
        found = self._reconciler.overrides(name).split
        if found is not None and is_over(found.until_us):
            self.split(Requester(name, REQUESTED_BY, why_over(found.note.reason)), {}, "")

    def block(self, requester: Requester, version: int) -> Outcome:
        """A version must not serve, now or later. The one that served before takes its place, or another that is
        desired; until that has come, and where there is none, no request is answered."""
        found = self._locator.version(self._known(requester), version)
        return self._decide(
            requester, "block", lambda facts: deciding.blocked(facts, requester, found), even_if_lost=True
        )

    def unblock(self, requester: Requester, version: int) -> Outcome:
        """A blocked version may serve again, if its source still wants it."""
        return self._decide(requester, "unblock", lambda facts: deciding.unblocked(facts, requester, version))

    def replace_overrides(self, requester: Requester, overrides: Overrides) -> Outcome:
        """What a fleet decided counts, in place of all that was decided here, also of a servable that is still to come.
        Counts on a full disk too, as `disable`."""
        requester.check_named()
        outcome = Outcome(f"{check_name(requester.servable)} has the overrides of its fleet", True)
        kept = self._keep(requester, "overrides", lambda facts: (overrides, outcome), even_if_lost=True)
        self._ends(requester.servable, overrides.split.until_us if overrides.split else 0)
        return kept

    def blocks(self, id: ServableId, reference: VersionReference) -> bool:
        """Whether a version is blocked."""
        return self._reconciler.overrides(id.name).block_of(reference) is not None

    def permit(self, desired: DesiredState, present: DesiredState) -> None:
        """FailedPrecondition where what somebody pushes goes against a decision and is not desired at present."""
        check_permitted(desired, self._reconciler.overrides(desired.servable), present)

    def _decide(self, requester: Requester, action: str, decide: _Decide, even_if_lost: bool = False) -> Outcome:
        self._known(requester)
        return self._keep(requester, action, decide, even_if_lost)

    def _keep(self, requester: Requester, action: str, decide: _Decide, even_if_lost: bool) -> Outcome:
        name = requester.servable
        before = self._reconciler.overrides(name)
        outcome = Outcome("", False)

        def change(overrides: Overrides) -> Overrides:
            nonlocal outcome
            after, outcome = decide(self._facts(name, overrides))
            return after

        try:
            changed = self._reconciler.decide(name, change, even_if_lost=even_if_lost)
        except Exception:
            if self._reconciler.overrides(name) != before:
                self._journal.add(decision_entry(requester, action, outcome))
            raise
        if not changed:
            return as_it_was(outcome)
        self._journal.add(decision_entry(requester, action, outcome))
        return outcome

    def _facts(self, name: str, overrides: Overrides) -> Facts:
        desired, routing = self._reconciler.desired(name), self._reconciler.routing(name)
        serving = routing.serving.version if routing.serving is not None else None
        return Facts(name, overrides, desired, routing.numbers, serving, routing.history.served)

    def _known(self, requester: Requester) -> str:
        requester.check_named()
        if not self._reconciler.knows(requester.servable):
            raise NotFound(f"the engine knows no servable {requester.servable!r}: see `tidegate status`")
        return requester.servable
