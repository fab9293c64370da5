"""Where the requests for one model go, and what the data plane has to be told so that they go there.

The reconciler makes such a value at each change; the front compares it with the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import tidegate_native as native

from tidegate_serving.contract.desired_state import STABLE, Shadow, Split

Change = (
    native.Publish
    | native.Retire
    | native.SetLabels
    | native.SetDefault
    | native.SetShadow
    | native.SetLog
    | native.SetSplit
    | native.SetDisabled
    | native.SetBatching
)


@dataclass(frozen=True, slots=True)
class ModelTraffic:
    """`versions` are in the serving map; `labels` name some of them, labels that are `waiting` name none yet, so that
    requests for them are UNAVAILABLE. `ordinary` is the version for requests without version and label, None for none,
    and they are `steered` where a label `stable` has them with it. `disabled` says why no request is answered, empty
    where they are. `log` is the share of requests that is logged.
    """

    model: str = ""
    versions: frozenset[int] = frozenset()
    labels: Mapping[str, int] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    ordinary: int | None = None
    steered: bool = True
    shadow: Shadow | None = None
    split: Split | None = None
    disabled: str = ""
    log: float = 0.0

    @property
    def default(self) -> int | None:
        """Where ordinary requests go, where neither label `stable` nor being the newest version says so."""
        if STABLE in self.labels or STABLE in self.waiting:
            return None if self.steered else self.ordinary
        return None if self.ordinary == max(self.versions, default=None) else self.ordinary

    def changes_from(self, before: ModelTraffic) -> list[Change]:
        """What the plane has to be told, besides publishing and retiring."""
        changes: list[Change] = []
        if (self.labels, self.waiting) != (before.labels, before.waiting):
            changes.append(native.SetLabels(model=self.model, labels=dict(self.labels), waiting=sorted(self.waiting)))
        if self.default != before.default:
            changes.append(native.SetDefault(model=self.model, version=self.default))
        if self.shadow is not None and self.shadow != before.shadow:
            shadow = self.shadow
            changes.append(native.SetShadow(model=self.model, version=shadow.version, fraction=shadow.fraction))
        elif self.shadow is None and before.shadow is not None and before.shadow.version in self.versions:
            changes.append(native.SetShadow(model=self.model, version=before.shadow.version, fraction=0.0))
        if self.log != before.log and self.versions:
            changes.append(native.SetLog(model=self.model, sampling_rate=self.log))
        if self.split != before.split:
            shares, key = (dict(self.split.shares), self.split.key) if self.split else ({}, "")
            changes.append(native.SetSplit(model=self.model, shares=shares, key=key))
        if self.disabled != before.disabled:
            changes.append(native.SetDisabled(model=self.model, reason=self.disabled or None))
        return changes
