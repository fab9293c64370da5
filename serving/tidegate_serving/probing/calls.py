"""Calls of the probe to a loaded version: one batch, or many from several threads at once, timed and checked.

Inputs are the tensors of a frame; outputs are checked as the engine checks them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import LoadedVersion, ask
from tidegate_serving.platforms.tensor_checks import check_outputs
from tidegate_serving.probing.interleaving import interleaved
from tidegate_serving.probing.state import seconds_held_up, seconds_ready

_SWITCH_SECONDS = 1e-5
_MOST_ROUNDS = 32
_TELL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Call:
    """Outputs of one call; `seconds` is the wall clock without the time for which other work held it up; `integers`
    names the outputs that came as whole numbers though the signature declares floats.
    """

    outputs: Mapping[str, Array]
    seconds: float
    integers: tuple[str, ...] = ()


def one_call(loaded: LoadedVersion, signature: str, inputs: Mapping[str, Array], rows: int | None) -> Call:
    """One batch, or a whole without rows. Raises the contract's errors, ModelFailed for what else the model raised."""
    before = seconds_ready()
    begun = time.monotonic()
    result = ask(loaded.servable, signature, inputs)
    seconds = time.monotonic() - begun
    waited = seconds_held_up(before, seconds_ready(), threading.get_native_id())
    for error in result.errors.values():
        raise error
    declared = loaded.manifest.signatures[signature]
    outputs = check_outputs(loaded.manifest.id, declared, rows, result.outputs)
    return Call(outputs, max(0.0, seconds - waited), _integers(declared, result.outputs))


def _integers(signature: Signature, outputs: Mapping[str, Any]) -> tuple[str, ...]:
    floats = [spec.name for spec in signature.outputs if spec.dtype.startswith("float")]
    return tuple(name for name in floats if np.asarray(outputs[name]).dtype.kind in "iu")


def at_once(
    loaded: LoadedVersion,
    signature: str,
    inputs: Mapping[str, Array],
    calls: Sequence[tuple[int, int]],
    threads: int,
    seconds: float,
    progress: Callable[[], None],
) -> dict[str, Array]:
    """Outputs of all calls, each a range of rows, from every thread and round, one below the other.

    Threads start together, each with another call, and go on for `seconds`, at least two rounds; every other one is
    `interleaved`. The first error ends all of them. `progress` is called whenever more are answered.
    """
    callers = _Callers(loaded, signature, inputs, calls, threads, time.monotonic() + seconds)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        parts = callers.work(progress)
    finally:
        sys.setswitchinterval(interval)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class _Callers:
    """Threads that make the same calls at the same time."""

    def __init__(
        self,
        loaded: LoadedVersion,
        signature: str,
        inputs: Mapping[str, Array],
        calls: Sequence[tuple[int, int]],
        threads: int,
        end: float,
    ) -> None:
        self._loaded = loaded
        self._signature = signature
        self._inputs = inputs
        self._calls = calls
        self._threads = threads
        self._end = end
        self._start = threading.Barrier(threads)
        self._errors: list[BaseException] = []
        self._parts: list[list[Mapping[str, Array]]] = [[] for _ in range(threads)]
        self._answered = [0] * threads

    def work(self, progress: Callable[[], None]) -> list[Mapping[str, Array]]:
        """Outputs by thread, round and call."""
        threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(self._threads)]
        for thread in threads:
            thread.start()
        told = 0
        for thread in threads:
            while thread.is_alive():
                thread.join(_TELL_SECONDS)
                if (answered := sum(self._answered)) > told:
                    told = answered
                    progress()
        if self._errors:
            raise self._errors[0]
        return [part for parts in self._parts for part in parts]

    def _run(self, number: int) -> None:
        self._start.wait()
        try:
            for turn in range(_MOST_ROUNDS):
                with interleaved(seed=number * _MOST_ROUNDS + turn) if turn % 2 else nullcontext():
                    self._parts[number] += self._round(number)
                if self._errors or (turn and time.monotonic() > self._end):
                    return
        except BaseException as error:  # the first one is the answer to the frame
            self._errors.append(error)

    def _round(self, number: int) -> list[Mapping[str, Array]]:
        outputs: dict[int, Mapping[str, Array]] = {}
        for place in range(len(self._calls)):
            call = (place + number) % len(self._calls)
            first, last = self._calls[call]
            own = {name: array[first:last].copy() for name, array in self._inputs.items()}
            outputs[call] = one_call(self._loaded, self._signature, own, last - first).outputs
            self._answered[number] += 1
        return [outputs[call] for call in range(len(self._calls))]
