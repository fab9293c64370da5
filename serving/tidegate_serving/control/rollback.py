"""The way back in one call: ordinary clients get the version that they had before.

The control port asks. Where the RPC Source owns the servable, its wish goes back; where another source does, which
would propose the bad version again, the earlier one is pinned.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate_serving.contract.errors import FailedPrecondition, NotFound
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.locate import Locator
from tidegate_serving.control.operations import Asked, Controls, Done
from tidegate_serving.control.overrides import KnownVersion
from tidegate_serving.control.reconciler import Steering
from tidegate_serving.control.routing import STABLE
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.rpc import NAME, Push, PushedVersion, RpcSource
from tidegate_serving.sources.rpc_state import WantedVersion


class Rollback:
    """`available` says whether a version is loaded now, so that going back takes effect at once."""

    def __init__(
        self,
        steering: Steering,
        controls: Controls,
        locator: Locator,
        rpc: RpcSource,
        owners: Owners,
        available: Callable[[ServableId], bool],
    ) -> None:
        self._steering = steering
        self._controls = controls
        self._locator = locator
        self._rpc = rpc
        self._owners = owners
        self._available = available

    def __call__(self, asked: Asked, version: int | None, from_version: int | None) -> Done:
        """Back to `version`, or to what served before. The present version serves until the other is loaded.

        `from_version` is what the caller wants to get away from: where that does not serve any more, nothing changes,
        so that a call that is repeated takes nobody back twice.
        """
        name = asked.servable
        serving = self._steering.serving(name)
        if from_version is not None and serving is not None and serving.version != from_version:
            sentence = f"{name}:{from_version} does not serve any more, version {serving.version} does"
            return Done(sentence, False, from_version, serving.version)
        if version is None and serving is None:
            raise FailedPrecondition(f"nothing serves under {name!r}: push a version instead of rolling back")
        target = self._previous(name) if version is None else self._locator.version(name, version)
        before = serving.version if serving is not None else None
        if before == target.version and not self._is_leaving(name, target):
            return Done(f"version {before} of {name} serves already", False, before, before)
        if self._owners.owner(name) == NAME and self._steering.orders(name).pinned is None:
            self._wish(asked, target)
        else:
            self._controls.pin(asked, target.version, action="rollback")
        return Done(self._sentence(name, before, target.version), True, before, target.version)

    def _previous(self, name: str) -> KnownVersion:
        """What was before; where there is nothing, the one that serves, if another is to replace it."""
        try:
            return self._locator.previous(name)
        except NotFound:
            serving = self._steering.serving(name)
            if serving is None or not self._is_leaving(name, serving):
                raise
            return serving

    def _is_leaving(self, name: str, serving: KnownVersion) -> bool:
        """Whether ordinary clients are to get another version than the one that serves."""
        course = self._steering.course(name)
        return bool(course.numbers) and course.labels.get(STABLE, max(course.numbers)) != serving.version

    def _wish(self, asked: Asked, target: KnownVersion) -> None:
        """The wish goes back, the split ends; another label stays where its version does."""
        name = asked.servable
        present = self._rpc.wish(name)
        labels = present.labels if present is not None else {}
        kept = {label: number for label, number in labels.items() if number == target.version}
        push = Push(
            servable=name,
            versions=(PushedVersion(target.version, str(target.path.directory), target.path.manifest_digest),),
            labels={**kept, STABLE: target.version},
            requested_by=asked.requested_by,
            reason=asked.reason,
            keep_previous=present.keep_previous if present is not None else False,
            expected_revision=present.revision if present is not None else 0,
        )
        loaded = self._available(ServableId(name, target.version))
        path = target.path
        known = WantedVersion(target.version, str(path.directory), path.manifest_digest, path.platform)
        self._rpc.set_aspired(push, "rollback", known if loaded else None)
        if self._steering.orders(name).split is not None:
            self._controls.split(asked, {}, "")

    def _sentence(self, name: str, before: int | None, target: int) -> str:
        if before == target:
            return f"{name} stays on version {target}, what was to replace it is taken back"
        if self._available(ServableId(name, target)):
            return f"{name} went back from version {before} to version {target}"
        return f"{name} goes back from version {before} to version {target} as soon as that is loaded"
