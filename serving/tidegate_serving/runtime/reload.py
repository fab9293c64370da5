"""Makes a running engine live by another config, all or nothing.

The engine hands in its parts and a new config; what cannot be is refused before anything changes, and what fails on the
way is taken back.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Collection

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.view import ConfigDiff, diff
from tidegate_serving.contract.errors import TidegateError, error_of
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.journal import Entry, Kind
from tidegate_serving.requests.limits import Limits
from tidegate_serving.requests.plane_front import PlaneFront
from tidegate_serving.runtime.assembly import Lifecycle, LiveConfig, manager_options
from tidegate_serving.runtime.assembly_sources import SourcePlan, Sources
from tidegate_serving.sources.rpc.source import NAME as RPC_SOURCE

_ADMISSION = ("trusted_keys", "allow_unverified", "override_policy")
_WARM_UP = ("warm_up", "warm_up_iterations", "warm_up_batch_sizes")
_LOADING = (*_ADMISSION, *_WARM_UP, "allow_pickle", "platforms", "load_retries")
_SHOWN = 20
_log = logging.getLogger(__name__)


class HalfReloaded(TidegateError):
    """A reload that failed, and whose undoing failed too: a part of either config is in force."""


class Reloader:
    """One reload at a time."""

    def __init__(self, live: LiveConfig, lifecycle: Lifecycle, sources: Sources) -> None:
        self._live = live
        self._lifecycle = lifecycle
        self._sources = sources
        self._turn = threading.RLock()

    def reload(
        self, config: EngineConfig, *, dry_run: bool = False, requested_by: str = "", reason: str = ""
    ) -> ConfigDiff:
        """Lives by a config from now on, or with `dry_run` only says what would change.

        Raises the contract's errors for a config that cannot be used, FailedPrecondition for a key that only a restart
        can change, what a source raises as it starts; nothing has changed then. HalfReloaded where that is not so.
        """
        return self.change(lambda now: config, dry_run=dry_run, requested_by=requested_by, reason=reason)

    def change(
        self,
        make: Callable[[EngineConfig], EngineConfig],
        *,
        dry_run: bool = False,
        requested_by: str = "",
        reason: str = "",
    ) -> ConfigDiff:
        """As `reload`, by the config that is made of the one in force when its turn has come, so that no reload in
        between is undone."""
        with self._turn:
            before = self._live.now
            config = dataclasses.replace(make(before), usable_at_start=before.usable_at_start)
            changes = diff(before, config)
            plan = self._plan(before, config)
            if dry_run:
                return changes
            changes.check_live()
            if changes:
                self._change(before, config, plan)
                _log.info("reloaded:\n%s", changes)
                text = f"the config was reloaded: {_shortly(changes)}"
                self._lifecycle.journal.add(
                    Entry(Kind.CONTROL, "reload", text, requested_by=requested_by, reason=reason)
                )
            self._live.now = config
            return changes

    def _is_pushed(self, name: str) -> bool:
        return self._sources.owners.owner(name) == RPC_SOURCE

    def _plan(self, before: EngineConfig, after: EngineConfig) -> SourcePlan:
        plan = self._sources.plan(after)
        if all(getattr(before, key) == getattr(after, key) for key in _ADMISSION):
            return dataclasses.replace(plan, admission=self._sources.admission.now)
        return plan

    def _change(self, before: EngineConfig, after: EngineConfig, plan: SourcePlan) -> None:
        in_force = self._sources.in_force()
        with self._sources.reconciler.reload():
            try:
                self._apply(before, after, plan)
            except Exception as error:
                _log.exception("the reload failed, the engine goes back to what it had")
                self._take_back(before, after, in_force, error)
                if isinstance(error, TidegateError):
                    raise error_of(error.code, f"{error.message}; everything is as it was", error.details) from error
                raise

    def _take_back(self, before: EngineConfig, after: EngineConfig, in_force: SourcePlan, error: Exception) -> None:
        """By what was in force, of which nothing is read again: it may have changed or gone since."""
        try:
            extra = self._sources.extra.plan(before.sources)
            self._apply(after, before, dataclasses.replace(in_force, extra=extra))
        except Exception as second:
            text = f"the reload failed ({error}) and could not be taken back ({second})"
            raise HalfReloaded(f"{text}: a part of either config is in force, restart the engine") from error

    def _apply(self, before: EngineConfig, after: EngineConfig, plan: SourcePlan) -> None:
        """Labels are said first and move with the versions of their servable."""
        parts = self._lifecycle
        self._live.now = after
        pushed = {name for name in before.models.keys() | after.models.keys() if self._is_pushed(name)}
        tell_labels(self._sources.reconciler, before, after, pushed)
        tell_front(parts.front, before, after)
        parts.manager.reconfigure(manager_options(after))
        parts.pools[0].resize(after.load_threads)
        parts.pools[1].resize(after.unload_threads)
        for pool in parts.pools[:2]:
            pool.patience = after.load_seconds
        self._sources.retell(plan)
        if any(getattr(before, key) != getattr(after, key) for key in _LOADING):
            parts.manager.retry_failed()


def _shortly(changes: ConfigDiff) -> str:
    """The log has all of them."""
    more = len(changes.changes) - _SHOWN
    return "; ".join(map(str, changes.changes[:_SHOWN])) + (f"; and {more} more" if more > 0 else "")


def tell_labels(
    reconciler: Reconciler, before: EngineConfig, after: EngineConfig, pushed: Collection[str] = frozenset()
) -> None:
    """Labels by another config, whether the version before stays loaded, and what label `stable` means, of what
    differs. A push brings its labels itself, so that those in the config do not count for what was pushed."""
    for name in sorted(before.models.keys() | after.models.keys()):
        old, new = before.models.get(name), after.models.get(name)
        old_labels, new_labels = (dict(model.labels) if model else {} for model in (old, new))
        if old_labels != new_labels and name not in pushed:
            reconciler.set_labels(name, new_labels)
        elif old_labels != new_labels and new_labels:
            _log.warning("the labels of %s in the config do not count, because it was pushed with its own", name)
        if (old and old.keep_previous) != (new and new.keep_previous):
            reconciler.refresh(name)
    if (before.keep_previous, before.follow_stable) != (after.keep_previous, after.follow_stable):
        for name in sorted(reconciler.names()):
            reconciler.refresh(name)


def tell_front(front: PlaneFront, before: EngineConfig, after: EngineConfig) -> None:
    """Traffic by another config: batching, log rates and limits, of what differs and of nothing else."""
    front.adopt(after)
    for name in front.names() | after.models.keys():
        old, new = before.models.get(name), after.models.get(name)
        if (before.batching, old and old.batching) != (after.batching, new and new.batching):
            front.set_batching(name, None)
        rates = (old and old.log_sampling_rate, new and new.log_sampling_rate)
        if before.log_sampling_rate != after.log_sampling_rate or rates[0] != rates[1]:
            front.set_log_rate(name, None)
    if Limits.of(before) != Limits.of(after):
        front.set_limits(Limits.of(after))
