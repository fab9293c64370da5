"""Servable version policies: pure functions from snapshots of one servable's versions to one action, or none.

The manager asks again after each action. Both are those of TensorFlow Serving: prefer that something always answers,
or prefer that two versions never need memory at the same time.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate_serving.contract.servable import ServableId
from tidegate_serving.lifecycle.harness import GONE, Stage


class Verb(enum.Enum):
    """What to do with a version; unloads are done before loads."""

    UNLOAD = 0
    LOAD = 1


@dataclass(frozen=True, slots=True)
class Action:
    """One step."""

    verb: Verb
    id: ServableId


@dataclass(frozen=True, slots=True)
class VersionSnapshot:
    """One version as a policy sees it. `held`: a label still points here and waits for a version that is to come."""

    id: ServableId
    stage: Stage
    aspired: bool
    held: bool = False


Policy = Callable[[Sequence[VersionSnapshot]], Action | None]


def availability_preserving(versions: Sequence[VersionSnapshot]) -> Action | None:
    """Unloads only what something else can stand in for; loads the highest wanted version that is new.

    A held version stays until its label has moved, unless nothing is wanted any more.
    """
    aspired = [version for version in versions if version.aspired]
    leaving = [version for version in versions if not version.aspired and version.stage is Stage.READY]
    replaced = not aspired or any(version.stage is Stage.READY for version in aspired) or len(leaving) >= 2
    candidates = [version for version in leaving if not (version.held and aspired)]
    if candidates and replaced:
        return Action(Verb.UNLOAD, min(version.id for version in candidates))
    return _load_highest(aspired)


def resource_preserving(versions: Sequence[VersionSnapshot]) -> Action | None:
    """Unloads whatever is not wanted first, waits until it is gone, then loads the highest wanted version."""
    unwanted = [version for version in versions if not version.aspired]
    leaving = [version.id for version in unwanted if version.stage is Stage.READY]
    if leaving:
        return Action(Verb.UNLOAD, min(leaving))
    if any(version.stage not in GONE for version in unwanted):
        return None
    return _load_highest([version for version in versions if version.aspired])


def _load_highest(aspired: Sequence[VersionSnapshot]) -> Action | None:
    new = [version.id for version in aspired if version.stage is Stage.NEW]
    return Action(Verb.LOAD, max(new)) if new else None


POLICIES: dict[str, Policy] = {"availability": availability_preserving, "resources": resource_preserving}
