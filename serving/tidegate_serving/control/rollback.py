"""The way back in one call: ordinary requests get the version that they had before.

The control port asks. Where the RPC Source owns the servable, its desired state goes back; where another source does,
which would want the bad version again, the earlier one is pinned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, NotFound
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.deciding import Requester
from tidegate_serving.control.locate import Locator
from tidegate_serving.control.operations import Operations
from tidegate_serving.control.overrides import Outcome
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.rpc.source import NAME, RpcSource


class Rollback:
    """`available` says whether a version is loaded now, so that going back takes effect at once."""

    def __init__(
        self,
        reconciler: Reconciler,
        operations: Operations,
        locator: Locator,
        rpc: RpcSource,
        owners: Owners,
        available: Callable[[ServableId], bool],
    ) -> None:
        self._reconciler = reconciler
        self._operations = operations
        self._locator = locator
        self._rpc = rpc
        self._owners = owners
        self._available = available

    def __call__(self, requester: Requester, version: int | None, from_version: int | None) -> Outcome:
        """Back to `version`, or to what served before. The present version serves until the other is loaded.

        `from_version` is what the caller wants to get away from: where that does not serve any more, nothing changes,
        so that a call that is repeated takes nobody back twice.
        """
        name = requester.servable
        serving = self._reconciler.routing(name).serving
        if from_version is not None and serving is not None and serving.version != from_version:
            sentence = f"{name}:{from_version} does not serve any more, version {serving.version} does"
            return Outcome(sentence, False, from_version, serving.version)
        if version is None and serving is None:
            raise FailedPrecondition(f"nothing serves under {name!r}: push a version instead of rolling back")
        target = self._previous(name, serving) if version is None else self._locator.version(name, version)
        if (block := self._reconciler.overrides(name).block_of(target)) is not None:
            raise FailedPrecondition(
                f"{name}:{target.version} was blocked by {block.note.requested_by} ({block.note.reason}): unblock it "
                "first, or go back to another"
            )
        before = serving.version if serving is not None else None
        if before == target.version and not self._is_leaving(name, target):
            return Outcome(f"version {before} of {name} serves already", False, before, before)
        if self._owners.owner(name) == NAME and self._reconciler.overrides(name).pin is None:
            self._desire(requester, target)
        else:
            self._operations.pin(requester, target.version, action="rollback")
        return Outcome(self._sentence(name, before, target.version), True, before, target.version)

    def _previous(self, name: str, serving: VersionReference | None) -> VersionReference:
        """What was before; where there is nothing, the one that serves, if another is to replace it."""
        try:
            return self._locator.previous(name)
        except NotFound:
            if serving is None or not self._is_leaving(name, serving):
                raise
            return serving

    def _is_leaving(self, name: str, serving: VersionReference) -> bool:
        """Whether ordinary requests are to go to another version than the one that serves."""
        routing = self._reconciler.routing(name)
        return bool(routing.numbers) and routing.meant != serving.version

    def _desire(self, requester: Requester, target: VersionReference) -> None:
        """The desired state goes back, the split ends; another label stays where its version does."""
        name = requester.servable
        present = self._rpc.desired(name) or DesiredState(name)
        back = replace(
            replace(present, versions=(target,)).promoting(target.version),
            requested_by=requester.requested_by,
            reason=requester.reason,
        )
        loaded = self._available(ServableId(name, target.version))
        self._rpc.set_desired_state(back, present.revision, "rollback", target if loaded else None)
        if self._reconciler.overrides(name).split is not None:
            self._operations.split(requester, {}, "")

    def _sentence(self, name: str, before: int | None, target: int) -> str:
        if before == target:
            return f"{name} stays on version {target}, what was to replace it is taken back"
        if self._available(ServableId(name, target)):
            return f"{name} went back from version {before} to version {target}"
        return f"{name} goes back from version {before} to version {target} as soon as that is loaded"
