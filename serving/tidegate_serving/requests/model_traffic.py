"""What one servable looks like to the data plane: versions in the map, labels, shadow, split, logging, wanted and current.

The endpoint keeps one per servable and asks it which changes have to go into the next `apply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import tidegate_native as native

from tidegate_serving.control.routing import STABLE
from tidegate_serving.control.status import Shadow
from tidegate_serving.requests.labels import held_versions, settle_labels, settle_ordinary
from tidegate_serving.requests.traffic import Split

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
    """Frozen: a change makes a new one, which counts once the plane has taken it. `off` says why nobody is let in.

    `wanted` are the versions that ordinary clients may be on, None for any; `ordinary` is where they are.
    """

    model: str
    versions: frozenset[int] = frozenset()
    wanted: frozenset[int] | None = None
    ordinary: int | None = None
    wanted_labels: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    wanted_shadow: Shadow | None = None
    shadow: Shadow | None = None
    wanted_log: float = 0.0
    log: float = 0.0
    wanted_split: Split | None = None
    split: Split | None = None
    off: str | None = None

    @property
    def waiting(self) -> frozenset[str]:
        """Labels that are wanted but point nowhere, because their version is not in the map beside others that are."""
        return frozenset(self.wanted_labels.keys() - self.labels.keys()) if self.versions else frozenset()

    @property
    def held(self) -> frozenset[int]:
        """Versions with a label, or with ordinary clients, that wait for another version."""
        held = held_versions(self.labels, self.wanted_labels)
        if self.ordinary is None or self.wanted is None or self.ordinary in self.wanted or STABLE in self.wanted_labels:
            return held
        return held | {self.ordinary}

    @property
    def default(self) -> int | None:
        """Where ordinary clients are to be without a label, where that is not the newest version."""
        labelled, newest = STABLE in self.wanted_labels, max(self.versions, default=None)
        return None if labelled or self.ordinary == newest else self.ordinary

    def settled(self) -> ModelTraffic:
        """With labels, shadow and logging as far as the versions in the map allow."""
        labels = settle_labels(self.labels, self.wanted_labels, self.versions, self.ordinary)
        if STABLE in self.wanted_labels:
            ordinary = labels.get(STABLE)
        else:
            ordinary = settle_ordinary(self.ordinary, self.wanted, self.versions)
        shadow = self.wanted_shadow if self.wanted_shadow and self.wanted_shadow.version in self.versions else None
        return replace(
            self,
            labels=labels,
            ordinary=ordinary,
            shadow=shadow,
            log=self.wanted_log if self.versions else 0.0,
            split=self.wanted_split if self.versions else None,
        )

    def changes_from(self, before: ModelTraffic) -> list[Change]:
        """What the plane has to be told, besides publishing and retiring."""
        changes: list[Change] = []
        if (self.labels, self.waiting) != (before.labels, before.waiting):
            changes.append(native.SetLabels(model=self.model, labels=dict(self.labels), waiting=sorted(self.waiting)))
        if self.default != before.default:
            changes.append(native.SetDefault(model=self.model, version=self.default))
        if self.shadow != before.shadow:
            changes.extend(self._shadow_changes(before.shadow))
        if self.log != before.log and self.versions:
            changes.append(native.SetLog(model=self.model, sampling_rate=self.log))
        return [*changes, *self._switches(before)]

    def _switches(self, before: ModelTraffic) -> list[Change]:
        changes: list[Change] = []
        if self.split != before.split:
            shares, key = (dict(self.split.shares), self.split.key) if self.split else ({}, "")
            changes.append(native.SetSplit(model=self.model, shares=shares, key=key))
        if self.off != before.off:
            changes.append(native.SetDisabled(model=self.model, reason=self.off))
        return changes

    def _shadow_changes(self, before: Shadow | None) -> list[Change]:
        if self.shadow is not None:
            return [native.SetShadow(model=self.model, version=self.shadow.version, fraction=self.shadow.fraction)]
        if before is not None and before.version in self.versions:
            return [native.SetShadow(model=self.model, version=before.version, fraction=0.0)]
        return []
