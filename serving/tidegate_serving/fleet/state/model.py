"""A model of a fleet: its desired state as for one engine, its copies and size, and what serves until then."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate_serving.contract.desired_state import STABLE, DesiredState, VersionReference
from tidegate_serving.contract.errors import InvalidInput, Tampered
from tidegate_serving.contract.formats import MALFORMED, check_format, finite
from tidegate_serving.control.overrides import NO_OVERRIDES, Overrides

_KIND, _VERSION = "fleet-model", "1"
MOST_COPIES = 1000
_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class Copies:
    """On how many nodes a model is to be: `least` always, `most` under load. With a least of 0 it may be unloaded
    where room is needed, and is loaded again when it is asked for. InvalidInput for numbers that cannot be."""

    least: int = 1
    most: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.least <= self.most <= MOST_COPIES and self.most):
            raise InvalidInput(
                f"copies are {self.least} to {self.most}: use 0 or more for the least, 1 to {MOST_COPIES} for the "
                "most, and no less for the most than for the least"
            )


@dataclass(frozen=True, slots=True)
class FleetModel:
    """`desired` is what was pushed last, `serving` the last desired state whose versions were AVAILABLE on every node
    of the model, None before the first. `served` are versions that ordinary clients had, the latest last, and `line`
    the numbers of those that a rollback goes back along, the present one last: a step back is taken off. `file_bytes`
    is what all desired versions take on one node, by their manifests, `measured_bytes` what an operator says instead,
    0 for nothing. `labels` are those that a node must have. `rate_per_copy` is how many requests per second one copy
    takes, 0 where copies do not follow load. `used_at` is Unix seconds of the last push, `overrides` what operators
    decided over the head of whoever pushes."""

    desired: DesiredState
    serving: DesiredState | None = None
    served: tuple[VersionReference, ...] = ()
    line: tuple[int, ...] = ()
    copies: Copies = field(default_factory=Copies)
    file_bytes: int = 0
    measured_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    rate_per_copy: float = 0.0
    used_at: float = 0.0
    overrides: Overrides = NO_OVERRIDES

    def __post_init__(self) -> None:
        for text, number in (("rate for one copy", self.rate_per_copy), ("time of use", self.used_at)):
            if not 0 <= number < math.inf:
                raise InvalidInput(f"the {text} of {self.name} is {number}: use a number from 0")
        if min(self.file_bytes, self.measured_bytes) < 0:
            raise InvalidInput(f"{self.name} takes {self.size} bytes: use a number from 0")

    @property
    def name(self) -> str:
        """The servable."""
        return self.desired.servable

    @property
    def is_known(self) -> bool:
        """Whether anything is desired of it or pinned: it has routes then, if only to say why there are none."""
        return bool(self.desired.versions or self.wanted.versions)

    @property
    def size(self) -> int:
        """Bytes that it counts for on each node."""
        return self.measured_bytes or self.file_bytes

    @property
    def previous(self) -> VersionReference | None:
        """What a rollback goes back to: the newest that was served before what serves now."""
        return next((one for one in reversed(self.earlier) if not self.is_blocked(one)), None)

    @property
    def earlier(self) -> tuple[VersionReference, ...]:
        """What ordinary clients had before what serves now, oldest first, without what was gone back from."""
        now = self.serving.stable if self.serving else None
        return tuple(one for number in self.line if number != now and (one := self.known(number)) is not None)

    @property
    def admitted(self) -> frozenset[str]:
        """Digests of manifests that nodes admitted, as they served them."""
        serving = self.serving.versions if self.serving else ()
        return frozenset(one.manifest_digest for one in (*serving, *self.served))

    @property
    def wanted(self) -> DesiredState:
        """What was pushed last, as overrides leave it: blocked versions leave, and what served before stands in where
        they had ordinary requests; a pinned one joins and takes label `stable`."""
        state, pin = self.desired, self.overrides.pin
        for one in filter(self.is_blocked, self.desired.versions):
            state = state.without(one.version)
        if state != self.desired:
            state = self._stood_in(state)
        if pin is not None:
            others = tuple(one for one in state.versions if one.version != pin.version.version)
            labels = {**state.labels, STABLE: pin.version.version}
            state = replace(state, versions=(*others, pin.version), labels=labels)
        return state

    @property
    def kept(self) -> frozenset[int]:
        """Versions that its nodes hold although what was pushed last does not have them: a pinned one, what stands in
        for a blocked one, and with `keep_previous` what a rollback goes back to once all that is wanted serves."""
        wanted = self.wanted
        held = set(wanted.numbers)
        if self.desired.keep_previous and held:
            previous = (self if self.settled else self.advanced()).previous
            if previous is not None and (STABLE in wanted.labels or previous.version < max(held)):
                held.add(previous.version)
        return frozenset(held - self.desired.numbers)

    @property
    def settled(self) -> bool:
        """Whether that serves."""
        return self.serving == self.wanted

    @property
    def refusal(self) -> str:
        """Why no request is answered, empty where they are."""
        if (note := self.overrides.disabled) is not None:
            return note.words
        if self.desired.versions and not self.wanted.versions:
            return f"all versions of {self.name} were blocked; there is no other: publish one, or unblock one"
        return ""

    def is_blocked(self, version: VersionReference | None) -> bool:
        """Whether an operator keeps it from serving."""
        return version is not None and self.overrides.block_of(version) is not None

    def known(self, number: int) -> VersionReference | None:
        """A version that is or was desired or served, or that a decision names."""
        serving = self.serving.versions if self.serving else ()
        found = (*self.desired.versions, *serving, *reversed(self.served), *self.overrides.references())
        return next((one for one in found if one.version == number), None)

    def advanced(self, back: frozenset[int] = frozenset()) -> FleetModel:
        """With what is wanted as what serves, without versions that are held `back`."""
        wanted = self.wanted.leaving_out(back)
        stable = wanted.version(wanted.stable)
        if stable is None:
            return replace(self, serving=wanted)
        number = stable.version
        served = (*(one for one in self.served if one.version != number), stable)[-_REMEMBERED:]
        before = self.line[: self.line.index(number)] if number in self.line else self.line
        return replace(self, serving=wanted, served=served, line=(*before, number)[-_REMEMBERED:])

    def _stood_in(self, state: DesiredState) -> DesiredState:
        """After blocked versions left. Where ordinary requests were meant for one of them, what served before takes its
        place; what else is desired may be a candidate that nobody has tried."""
        newest = self.desired.version(max(self.desired.numbers))
        if STABLE in state.labels or not (STABLE in self.desired.labels or self.is_blocked(newest)):
            return state
        serving = self.serving.version(self.serving.stable) if self.serving else None
        line = (serving, self.previous, *(block.instead for block in self.overrides.blocks))
        heir = next((one for one in line if one is not None and not self.is_blocked(one)), None)
        if heir is not None and heir.version not in state.numbers:
            state = replace(state, versions=(*state.versions, heir))
        if not state.versions:
            return state
        stable = max(state.numbers) if heir is None else heir.version
        return replace(state, labels={**state.labels, STABLE: stable})

    def to_bytes(self) -> bytes:
        """As it is written; the key has the name."""
        document = {
            "format": f"tidegate.{_KIND}/{_VERSION}",
            "desired": self.desired.to_dict(),
            "serving": self.serving and self.serving.to_dict(),
            "served": [one.to_dict() for one in self.served],
            "line": list(self.line),
            "copies": [self.copies.least, self.copies.most],
            "file_bytes": self.file_bytes,
            "measured_bytes": self.measured_bytes,
            "labels": dict(self.labels),
            "rate_per_copy": self.rate_per_copy,
            "used_at": self.used_at,
            "overrides": self.overrides.to_dict(),
        }
        return json.dumps(document, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, name: str, data: bytes) -> FleetModel:
        """Raises Tampered for what is no model, Unsupported for one of another major version."""
        try:
            document: Any = json.loads(data)
            check_format(document, kind=_KIND, version=_VERSION, where=f"model {name} of the fleet")
            serving, desired = document["serving"], DesiredState.from_dict(document["desired"])
            if desired.servable != name:
                raise ValueError(f"it is of model {desired.servable!r}")
            least, most = map(int, document["copies"])
            return cls(
                desired,
                None if serving is None else DesiredState.from_dict(serving),
                tuple(map(VersionReference.from_dict, document["served"])),
                tuple(map(int, document["line"])),
                Copies(least, most),
                int(finite(document["file_bytes"])),
                int(finite(document["measured_bytes"])),
                {str(key): str(value) for key, value in document["labels"].items()},
                finite(document["rate_per_copy"]),
                finite(document["used_at"]),
                Overrides.from_dict(document["overrides"]),
            )
        except (InvalidInput, *MALFORMED) as error:
            raise Tampered(
                f"model {name} of the fleet cannot be read in etcd ({error}): restore its key models/{name} from a "
                f"backup, or delete it (etcdctl del), push {name} anew, and say its copies and decisions again"
            ) from error
