"""Sequences of one signature: what a model keeps from request to request of each, begun, ended and forgotten.

After Triton's sequence batcher: a sequence begins with a request that says so and ends with one that says so, and its
requests reach the model one after the other, in the order in which they came.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, ResourceExhausted
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SEQUENCE_END, SEQUENCE_ID, SEQUENCE_INPUTS, SEQUENCE_START
from tidegate_serving.contract.tensors import Array

MOST_BYTES_OF_ID = 128
NO_SEQUENCE = ("", "0")
# Where there are too many, one that never went on makes room after this part of the time that others are kept for.
LEFT = 0.1


@dataclass(slots=True)
class Sequence:
    """A sequence as its model sees it: its id, whether this request is its first or its last, and `state`, a dict that
    is empty at its beginning and the model's to fill."""

    id: str
    start: bool
    end: bool
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SequenceLimits:
    """How long a sequence without a request is kept, in seconds, and how many of them."""

    idle_seconds: float = 60.0
    most: int = 10_000


class Sequences:
    """The sequences of one signature that are under way. Called by one thread at a time."""

    def __init__(self, id: ServableId, limits: SequenceLimits, now: Callable[[], float] = time.monotonic) -> None:
        self._id = id
        self._limits = limits
        self._now = now
        self._open: OrderedDict[str, tuple[float, dict[str, Any]]] = OrderedDict()
        # Those that had their first request alone.
        self._begun: OrderedDict[str, None] = OrderedDict()

    def ask(self, method: Callable[[dict[str, Array], Sequence], Any], inputs: Mapping[str, Array]) -> Any:
        """What the model's method returns for the request's own inputs and its sequence.

        InvalidInput for a request without an id, or for the first one of a sequence that does not say so;
        ResourceExhausted where too many sequences are under way.
        """
        given = {name: value for name, value in inputs.items() if name not in SEQUENCE_INPUTS}
        sequence = self._sequence(inputs)
        try:
            return method(given, sequence)
        finally:
            if sequence.end:
                self._forget(sequence.id)

    def _sequence(self, inputs: Mapping[str, Array]) -> Sequence:
        name = _name(self._id, inputs[SEQUENCE_ID].item())
        start, end = bool(inputs[SEQUENCE_START].item()), bool(inputs[SEQUENCE_END].item())
        now = self._now()
        self._forget_idle(now)
        known = self._open.get(name)
        if known is None and not start:
            idle, most = self._limits.idle_seconds, self._limits.most
            raise InvalidInput(
                f"inference request for sequence {name} to model '{self._id.name}' must specify the START flag on the "
                "first request of the sequence: no sequence of that id is under way in version "
                f"{self._id.version}, or it had no request for {idle:g} s, or none but its first for {LEFT * idle:g} s "
                f"while {most} were under way (metadata 'python.sequences'), or its process ended"
            )
        if known is None and len(self._open) >= self._limits.most and not self._forget_left(now):
            raise ResourceExhausted(
                f"{self._id} has {len(self._open)} sequences under way, the most it may have: end some with "
                "sequence_end, or raise metadata 'python.sequences' of the version"
            )
        self._forget(name)
        # One that begins anew is another, as in Triton.
        state: dict[str, Any] = {} if known is None or start else known[1]
        self._open[name] = (now, state)
        if start:
            self._begun[name] = None
        return Sequence(name, start, end, state)

    def _forget_idle(self, now: float) -> None:
        """The one that was asked longest ago comes first."""
        while self._open:
            name, (last, _) = next(iter(self._open.items()))
            if now - last <= self._limits.idle_seconds:
                return
            self._forget(name)

    def _forget_left(self, now: float) -> bool:
        """Forgets the one that began longest ago and never went on, where there is one that is old enough."""
        name = next(iter(self._begun), None)
        if name is None or now - self._open[name][0] <= LEFT * self._limits.idle_seconds:
            return False
        self._forget(name)
        return True

    def _forget(self, name: str) -> None:
        self._open.pop(name, None)
        self._begun.pop(name, None)


def _name(of: ServableId, sent: bytes | str) -> str:
    raw = sent.encode() if isinstance(sent, str) else sent
    if len(raw) > MOST_BYTES_OF_ID:
        raise InvalidInput(
            f"the sequence id for model '{of.name}' has {len(raw)} bytes: string correlation ID cannot be longer than "
            f"{MOST_BYTES_OF_ID} characters"
        )
    name = raw.decode(errors="replace")
    if name in NO_SEQUENCE:
        raise InvalidInput(
            f"inference request to model '{of.name}' must specify a non-zero or non-empty correlation ID: send "
            "parameter or input sequence_id"
        )
    return name
