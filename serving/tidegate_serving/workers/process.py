"""One worker: what runs one version in a process, and one call at a time over its channel."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import tidegate_native as native

from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, ProcessEnded, error_of
from tidegate_serving.contract.manifest import Manifest, manifest_of
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.words import words_of
from tidegate_serving.platforms.loader import Answer
from tidegate_serving.platforms.memory_need import RAM
from tidegate_serving.probing.state import resident_bytes
from tidegate_serving.workers.host import Host
from tidegate_serving.workers.task import WorkerTask

_CLOSE_SECONDS, _LOOK_SECONDS = 1.0, 0.1
_NO_ANSWER = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidInput)


class WorkerDied(Exception):
    """Its process has ended, or makes no sense any more; the text says how."""


class WhatItRaised(Exception):
    """What a version raised in a worker while it was loaded; the text is its trace there."""

    def __str__(self) -> str:
        return f"in a worker process\n{self.args[0]}"


@dataclass(frozen=True, slots=True)
class WorkerDescription:
    """What a worker says of the version that it has loaded; `definitions` is a `SignatureDefMap`, where it has one.
    `held` are bytes by device (`ram`, `gpu:0`)."""

    manifest: Manifest
    definitions: Any
    held: Mapping[str, int]


class Worker:
    """Loads one version and answers batches. For one thread at a time, but for its ends: `close`, `kill` and `bury` may
    come from any thread, also several at once."""

    def __init__(self, host: Host, line: native.WorkerLine) -> None:
        self.host = host
        self.line = line
        self._letting_go = threading.Lock()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self.host.pid

    @property
    def took_too_long(self) -> bool:
        """Whether its process was ended since its model's call took longer than its place allows."""
        return self.host.was_ended_for(self.line)

    def call_at_end(self, call: Callable[[str], object]) -> None:
        """Has somebody told how its process ended, once it has."""
        self.host.call_at_end(self.line, call)

    def load(self, task: WorkerTask) -> WorkerDescription:
        """Blocks until it has loaded and is warm. Raises what its load raised, and WorkerDied."""
        try:
            self._send({"kind": "load", "task": task.to_dict()})
            answer = json.loads(self.line.receive()[0])
            if answer["kind"] == "failed":
                failed, trace = error_of(str(answer["code"]), str(answer["message"])), str(answer["trace"])
            else:
                self._check_release(str(answer["release"]))
                return _description(answer, most=resident_bytes(self.pid))
        except (ConnectionError, FileNotFoundError) as error:
            raise WorkerDied(self.host.ending() + self._advice()) from error
        except _NO_ANSWER as error:
            raise self.makes_no_sense(error) from error
        raise failed from (WhatItRaised(trace) if trace else None)

    def predict(self, signature: str, inputs: dict[str, Array]) -> Answer:
        """Blocks until its model has answered. Raises what that raised, and WorkerDied."""
        return self._whole(self._ask({"kind": "predict", "signature": signature}, inputs))

    def answer(self, text: bytes, outputs: Mapping[str, Array]) -> Answer:
        """The answer that a message is. Raises as `predict`."""
        return self._whole(self._read(text, outputs))

    def _whole(self, answer: Answer | None) -> Answer:
        if answer is None:
            self.kill()
            raise WorkerDied("it gave no outputs")
        return answer

    def begin(self, signature: str, inputs: dict[str, Array]) -> Answer | None:
        """Blocks until its model has made the first message of a stream; None where there is none. Raises as `predict`.

        Until there is none, or something is raised, it is to be asked for the next one or told to stop.
        """
        return self._ask({"kind": "predict", "signature": signature}, inputs)

    def next(self) -> Answer | None:
        """The same for the next message."""
        return self._ask({"kind": "next"})

    def stop(self) -> None:
        """No more messages are wanted; blocks until the model has stopped. Raises as `predict`."""
        self._ask({"kind": "stop"})

    def _ask(self, request: Mapping[str, Any], inputs: dict[str, Array] | None = None) -> Answer | None:
        try:
            self._send(request, inputs)
            text, outputs = self.line.receive()
        except ConnectionError as error:
            raise WorkerDied(self.host.ending()) from error
        except ValueError as error:
            raise self.makes_no_sense(error) from error
        return self._read(text, outputs)

    def _read(self, text: bytes, outputs: Mapping[str, Array]) -> Answer | None:
        """None where the message says that there are no more."""
        try:
            answer = json.loads(text)
            failed = error_of(str(answer["code"]), str(answer["message"])) if answer["kind"] == "failed" else None
            told = answer.get("errors", {}).items()
            errors = {int(row): error_of(str(code), str(why), details) for row, (code, why, details) in told}
        except _NO_ANSWER as error:
            raise self.makes_no_sense(error) from error
        if failed is not None and answer.get("ends"):
            raise ProcessEnded(failed.message)
        if failed is not None:
            raise failed
        return None if answer["kind"] == "end" else Answer(outputs, errors)

    def makes_no_sense(self, what: object) -> WorkerDied:
        """Ends its process, which gave that."""
        self.kill()
        said = words_of(what) if isinstance(what, BaseException) else what
        return WorkerDied(f"it gave an answer that makes no sense ({said})")

    def _send(self, request: Mapping[str, Any], inputs: dict[str, Array] | None = None) -> None:
        self.line.send(json.dumps(request).encode(), inputs)

    def close(self) -> None:
        """Has it unload. Its process is ended by force where that takes more than a second, whoever else is there; of
        that no second counts in which a neighbour keeps Python waiting, for as long as the process's patience lasts."""
        try:
            self._send({"kind": "close"})
            ended = self.line.await_end(_CLOSE_SECONDS)
            since = time.monotonic()
            while not ended and self.host.holds_up_neighbours(since):
                ended = self.line.await_end(_LOOK_SECONDS)
        except ConnectionError:
            ended = True
        if not ended:
            self.kill()
        self.bury()

    def kill(self) -> None:
        """Ends its process by force; whoever waits for its answer gets WorkerDied."""
        self.host.kill()

    def bury(self) -> None:
        """Lets go of what it had, and ends its process where it was the last one there."""
        with self._letting_go:
            self.line.hang_up()
            self.host.leave(self.line)

    def _check_release(self, release: str) -> None:
        if release != (ours := metadata.version("tidegate")):
            raise FailedPrecondition(
                f"{self.host.place.interpreter} has Tidegate {release}, the engine {ours}: install {ours} there"
            )

    def _advice(self) -> str:
        """What to try where another Python did not get as far as to say what is wrong."""
        if not self.host.place.is_foreign:
            return ""
        try_it = f"{self.host.place.interpreter} -P -c 'import tidegate_serving.worker'"
        return f"; see whether its Python has Tidegate and what the model needs: {try_it}"


def _description(answer: Mapping[str, Any], most: int) -> WorkerDescription:
    """What a worker says once it has loaded; it holds no more memory than its process has, whatever it says."""
    definitions = None
    if answer["definitions"] is not None:
        definitions = message("tensorflow.serving.SignatureDefMap")()
        definitions.ParseFromString(base64.b64decode(answer["definitions"]))
    manifest = manifest_of(str(answer["manifest"]).encode(), "a worker's manifest")
    devices = {str(device): max(0, int(count)) for device, count in answer["device_bytes"].items() if device != RAM}
    return WorkerDescription(manifest, definitions, {**devices, RAM: min(max(0, int(answer["resident_bytes"])), most)})
