"""Where a program steers the requests of the engine that it lives in, while they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate_serving.config import BatchingConfig
from tidegate_serving.contract.desired_state import Shadow, Split
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.control.overrides import Note, SplitOverride
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.requests.limits import Limits
from tidegate_serving.requests.plane_front import PlaneFront


class Traffic:
    """Labels, shadow, split, kill switch, batching, log rate and limits. Nothing of it outlives the engine."""

    def __init__(self, reconciler: Reconciler, front: PlaneFront) -> None:
        self._reconciler = reconciler
        self._front = front

    def set_labels(self, name: str, labels: Mapping[str, int]) -> None:
        """The whole label set; each label moves once its version is loaded."""
        self._reconciler.set_labels(name, labels)

    def set_shadow(self, name: str, shadow: Shadow | None) -> None:
        """The shadow, which begins once its version is loaded; None ends it."""
        self._reconciler.edit(name, lambda desired: replace(desired, shadow=shadow))

    def set_split(self, name: str, split: Split | None) -> None:
        """Spreads requests that name neither version nor label; None ends it. See `Split` for versions not there."""
        chosen = None if split is None else SplitOverride(split, Note("", "", 0))
        self._reconciler.decide_unkept(name, lambda overrides: replace(overrides, split=chosen))

    def set_enabled(self, name: str, enabled: bool, reason: str) -> None:
        """The kill switch: while off, every request is refused with UNAVAILABLE and the reason; versions stay loaded.

        Holds for versions that come later too. InvalidInput for switching off without a reason.
        """
        if not enabled and not reason:
            raise InvalidInput(f"servable {name!r} cannot be switched off without a reason: say why")
        note = None if enabled else Note("", reason, 0)
        self._reconciler.decide_unkept(name, lambda overrides: replace(overrides, disabled=note))

    def set_batching(self, name: str, batching: BatchingConfig | None) -> None:
        """Other queue limits and another number of executor threads, for later versions too; None for the config's."""
        self._front.set_batching(name, batching)

    def set_log_rate(self, name: str, rate: float | None) -> None:
        """The share of requests that is logged from now on; None for the config's.

        InvalidInput for what is no share, FailedPrecondition where the engine keeps no log.
        """
        self._front.set_log_rate(name, rate)

    def set_limits(self, limits: Limits) -> None:
        """Message size, connections and the deadline of requests without one; what was let in before stays."""
        self._front.set_limits(limits)

    def labels(self, name: str) -> dict[str, int]:
        """Where each label points now."""
        return dict(self._reconciler.routing(name).traffic.labels)

    def ordinary(self, name: str) -> int | None:
        """The version that answers requests without version and label where they are not split."""
        return self._reconciler.routing(name).traffic.ordinary

    def shadow(self, name: str) -> Shadow | None:
        """The shadow as it works now."""
        return self._reconciler.routing(name).traffic.shadow

    def split(self, name: str) -> Split | None:
        """The split as it works now."""
        return self._reconciler.routing(name).traffic.split

    def off(self, name: str) -> str | None:
        """Why no request is answered; None while they are."""
        return self._reconciler.routing(name).traffic.disabled or None

    def batching(self, name: str) -> BatchingConfig:
        """How requests are batched now."""
        return self._front.batching(name)

    def log_rate(self, name: str) -> float:
        """The share of requests that is logged."""
        return self._front.log_rate(name)

    def limits(self) -> Limits:
        """What is bounded now."""
        return self._front.limits()
