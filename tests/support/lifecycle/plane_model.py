"""The native data plane's serving map in a few lines of Python: what the endpoint tells it, whom requests would reach.

For histories without sockets and threads: handles are taken and given back when the test says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

STABLE = "stable"


@dataclass(frozen=True)
class Said:
    """A change as the endpoint makes it: the native class of that name and its arguments."""

    kind: str
    given: Mapping[str, Any]


def recording_changes() -> SimpleNamespace:
    """In place of the native module's classes of changes."""
    kinds = (
        "Publish",
        "Retire",
        "SetLabels",
        "SetDefault",
        "SetShadow",
        "SetLog",
        "SetSplit",
        "SetDisabled",
        "SetBatching",
    )

    def maker(kind: str) -> Callable[..., Said]:
        return lambda **given: Said(kind, given)

    return SimpleNamespace(**{kind: maker(kind) for kind in kinds})


@dataclass(frozen=True)
class ModelPicture:
    """One model in the map."""

    versions: frozenset[int] = frozenset()
    labels: Mapping[str, int] = field(default_factory=dict)
    stable_waits: bool = False
    preferred: int | None = None
    split: Mapping[int, float] = field(default_factory=dict)
    off: str | None = None
    shadow: int | None = None

    @property
    def ordinary(self) -> int | None:
        """Whom a request without version and label reaches where nothing is split."""
        if self.off is not None:
            return None
        newest = None if self.stable_waits else max(self.versions, default=None)
        return self.labels.get(STABLE, newest) if self.preferred is None else self.preferred


Seen = Callable[[str, ModelPicture, ModelPicture], None]


class PlaneModel:
    """`seen(model, before, after)` is called at each change; `refusals` counts changes that are to be refused."""

    def __init__(self, seen: Seen) -> None:
        self.models: dict[str, ModelPicture] = {}
        self.handles: Counter[tuple[str, int]] = Counter()
        self.leaving: set[tuple[str, int]] = set()
        self.refusals = 0
        self.applied = 0
        self._seen = seen

    def of(self, name: str) -> ModelPicture:
        return self.models.get(name, ModelPicture())

    def set_limits(self, **limits: int) -> None:
        assert all(value > 0 for value in limits.values())

    def apply(self, changes: Sequence[Any]) -> None:
        if self.refusals and any(change.kind == "Publish" for change in changes):
            self.refusals -= 1
            raise ValueError("a plane may refuse a version")
        self.applied += 1
        after = dict(self.models)
        for change in changes:
            name = change.given["model"]
            after[name] = _changed(after.get(name, ModelPicture()), change)
        for name, picture in after.items():
            assert set(picture.labels.values()) <= picture.versions, f"{name}: a label points nowhere: {picture}"
            assert picture.preferred is None or picture.preferred in picture.versions, f"{name}: {picture}"
            if picture.shadow is not None and picture.shadow not in picture.versions:
                after[name] = replace(picture, shadow=None)
        before, self.models = self.models, after
        for change in changes:
            if change.kind == "Retire":
                self.leaving.add((change.given["model"], change.given["version"]))
        for name, picture in after.items():
            if before.get(name) != picture:
                self._seen(name, before.get(name, ModelPicture()), picture)

    def released(self) -> list[tuple[str, int]]:
        """Retired versions whose last handle is gone, each once."""
        free = sorted(gone for gone in self.leaving if not self.handles[gone])
        self.leaving -= set(free)
        return free


def _changed(picture: ModelPicture, change: Said) -> ModelPicture:
    given = change.given
    if change.kind == "Publish":
        assert given["version"] not in picture.versions, f"{given['version']} is published already"
        return replace(picture, versions=picture.versions | {given["version"]})
    if change.kind == "Retire":
        assert given["version"] in picture.versions, f"{given['version']} is not published"
        return replace(picture, versions=picture.versions - {given["version"]})
    if change.kind == "SetLabels":
        return replace(picture, labels=dict(given["labels"]), stable_waits=STABLE in given["waiting"])
    if change.kind == "SetDefault":
        return replace(picture, preferred=given["version"])
    if change.kind == "SetShadow":
        return replace(picture, shadow=given["version"] if given["fraction"] else None)
    if change.kind == "SetSplit":
        return replace(picture, split=dict(given["shares"]))
    if change.kind == "SetDisabled":
        return replace(picture, off=given["reason"])
    return picture
