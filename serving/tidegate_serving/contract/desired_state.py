"""What should be served of one servable, as values: versions, labels, shadow and split, and what label `stable` means.

Sources say it, operators' steps edit it, the RPC Source keeps it, the reconciler makes it so, and status shows it.

**Label `stable`** decides where ordinary requests go, which name neither version nor label: to the version under that
label, and to none while that version is not loaded (they are answered UNAVAILABLE); without it to the newest version
that is desired and loaded. So a version that is added while the label exists gets no ordinary request. Only in a
list of models by TensorFlow Serving's rule (`follow_stable` is false) it is a label like any other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.contract.words import cut

STABLE = "stable"
CALLABLE = "callable"
"""The platform of a version that is an object in the engine's own process."""

_KEY = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")
_SHOWN = 200
_SUM_TOLERANCE = 1e-6


def ordinary_version(labels: Mapping[str, int], versions: Collection[int]) -> int | None:
    """The version that ordinary requests are meant for, after the rule of label `stable`; None where there is none."""
    return labels.get(STABLE, max(versions, default=None))


@dataclass(frozen=True, slots=True)
class VersionReference:
    """One version: its number, where it lies and what its manifest was; enough to load it, and to load it again.

    `revision` grows with what names it, so that the same files named anew are tried anew. An `unpublished` version may
    lack a manifest; then `manifest_digest` is empty, `platform` is the configured one, and no verdict is asked for.
    `address` is where in an object store it was fetched from, and can be again; empty for a folder of this machine.
    """

    version: int
    directory: Path
    manifest_digest: str = ""
    platform: str = ""
    revision: int = 0
    unpublished: bool = False
    address: str = ""

    @property
    def fingerprint(self) -> str:
        """What it is, whatever its number: its manifest's digest, or its directory where it has no manifest."""
        return self.manifest_digest or str(self.directory)

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return {
            "version": self.version,
            "directory": str(self.directory),
            "manifest_digest": self.manifest_digest,
            "platform": self.platform,
            "revision": self.revision,
            "unpublished": self.unpublished,
            **({"address": self.address} if self.address else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> VersionReference:
        """Raises KeyError, TypeError or ValueError for values that make none."""
        return cls(**{**data, "version": int(data["version"]), "directory": Path(data["directory"])})


@dataclass(frozen=True, slots=True)
class Shadow:
    """The version that gets copies of requests, and which share of them, 0 to 1. `until_us` is when it ends by itself,
    in Unix microseconds, 0 for never: whoever looks at the answers may be gone."""

    version: int
    fraction: float
    until_us: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """How ordinary requests are spread over versions.

    `shares` by version sum to 1. `key` is the gRPC metadata key or REST header whose value's hash decides, so that one
    user always gets the same version; a request without it, and every request where `key` is empty, goes by the hash
    of its request id. The part of a version that does not serve goes where it would go without a split.

    Raises InvalidInput for shares or a key that cannot be.
    """

    shares: Mapping[int, float]
    key: str = ""

    def __post_init__(self) -> None:
        for version, share in self.shares.items():
            if version < 0 or not 0 <= share <= 1:
                raise InvalidInput(f"a split gives version {version} a share of {share}: use shares from 0 to 1")
        total = math.fsum(self.shares.values())
        if abs(total - 1) > _SUM_TOLERANCE:
            shares = cut(str(dict(self.shares)), _SHOWN)
            raise InvalidInput(f"a split's shares {shares} sum to {total:g}: they must sum to 1")
        if self.key and not _KEY.match(self.key):
            raise InvalidInput(
                f"a split's key {cut(self.key, _SHOWN)!r} cannot be a metadata key or header: use one like "
                "x-user-id, of at most 128 characters"
            )

    def __str__(self) -> str:
        by = f" by {self.key}" if self.key else ""
        return f"split{by}: " + ", ".join(f"{share:.4g} to {version}" for version, share in self.shares.items())


@dataclass(frozen=True, slots=True)
class DesiredState:
    """All that should be served of one servable. A version that is left out is to be unloaded.

    `labels` map to version numbers. `keep_previous`: the version that served before stays loaded, so that a rollback
    takes effect at once. `revision` grows with each accepted change (0: none yet); `requested_by`, `reason` and `at_us`
    (Unix microseconds) say who made the last one. `unusable` are versions that are desired and cannot be had, with why.
    """

    servable: str
    versions: tuple[VersionReference, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    shadow: Shadow | None = None
    keep_previous: bool = False
    revision: int = 0
    requested_by: str = ""
    reason: str = ""
    at_us: int = 0
    unusable: Mapping[int, TidegateError] = field(default_factory=dict)

    @property
    def numbers(self) -> frozenset[int]:
        """The version numbers."""
        return frozenset(one.version for one in self.versions)

    @property
    def is_anything(self) -> bool:
        """Whether anything at all is desired."""
        return bool(self.versions or self.unusable or self.labels or self.shadow)

    @property
    def stable(self) -> int | None:
        """The version that ordinary requests are meant for; None when nothing is desired."""
        return ordinary_version(self.labels, self.numbers)

    def version(self, number: int | None) -> VersionReference | None:
        """One desired version, or None."""
        return next((one for one in self.versions if one.version == number), None)

    def adding(self, version: VersionReference) -> DesiredState:
        """With one version more, and the present ordinary version under label `stable`, so that no ordinary request
        goes to the new one."""
        others = tuple(one for one in self.versions if one.version != version.version)
        labels = dict(self.labels)
        if others and self.stable is not None:
            labels.setdefault(STABLE, self.stable)
        return replace(self, versions=(*others, version), labels=labels)

    def without(self, number: int) -> DesiredState:
        """Without one version, its labels and its shadow."""
        return replace(
            self,
            versions=tuple(one for one in self.versions if one.version != number),
            labels={label: target for label, target in self.labels.items() if target != number},
            shadow=None if self.shadow is not None and self.shadow.version == number else self.shadow,
        )

    def leaving_out(self, numbers: Collection[int]) -> DesiredState:
        """Without these versions, their labels and their shadow."""
        state = self
        for number in numbers:
            state = state.without(number)
        return state

    def promoting(self, number: int) -> DesiredState:
        """Only this version, with label `stable` on it; every other label whose version goes, goes with it."""
        labels = {label: target for label, target in self.labels.items() if target == number}
        versions = tuple(one for one in self.versions if one.version == number)
        return replace(self, versions=versions, labels={**labels, STABLE: number}, shadow=None)

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it; what cannot be had is left out."""
        return {
            "servable": self.servable,
            "versions": [version.to_dict() for version in self.versions],
            "labels": dict(self.labels),
            "shadow": self.shadow and asdict(self.shadow),
            "keep_previous": self.keep_previous,
            "revision": self.revision,
            "requested_by": self.requested_by,
            "reason": self.reason,
            "at_us": self.at_us,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DesiredState:
        """Raises KeyError, TypeError or ValueError for values that make none."""
        return cls(
            servable=data["servable"],
            versions=tuple(map(VersionReference.from_dict, data["versions"])),
            labels={label: int(version) for label, version in data["labels"].items()},
            shadow=data["shadow"] and Shadow(**data["shadow"]),
            keep_previous=data["keep_previous"],
            revision=int(data["revision"]),
            requested_by=data["requested_by"],
            reason=data["reason"],
            at_us=data["at_us"],
        )
