"""One worker: its process, and one call at a time over its channel."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, error_of
from tidegate_serving.contract.manifest import Manifest, manifest_of
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import Answer
from tidegate_serving.workers.channel import Channel, ChannelClosed
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.task import WorkerTask

_CLOSE_SECONDS = 1.0
_NO_ANSWER = (ValueError, KeyError, TypeError, AttributeError, InvalidInput)


class WorkerDied(Exception):
    """Its process has ended, or makes no sense any more; the text says how."""


@dataclass(frozen=True, slots=True)
class WorkerDescription:
    """What a worker says of the version that it has loaded; `definitions` is a `SignatureDefMap`, where it has one."""

    manifest: Manifest
    definitions: Any
    resident_bytes: int


class Worker:
    """A process that loads one version and answers batches. For one thread at a time, but for its ends: `close`, `kill`
    and `bury` may come from any thread, also several at once."""

    def __init__(self, place: WorkerPlace) -> None:
        self._place = place
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            command = [place.interpreter, "-P", "-m", "tidegate_serving.worker", str(number)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[number])
        if place.processors:
            os.sched_setaffinity(self._process.pid, place.processors)
        self._channel = Channel(ours)
        self._letting_go = threading.Lock()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def load(self, task: WorkerTask) -> WorkerDescription:
        """Blocks until it has loaded and is warm. Raises what its load raised, and WorkerDied."""
        try:
            self._channel.send({"kind": "load", "task": task.to_dict()})
            answer, _ = self._channel.receive()
            if answer["kind"] == "failed":
                raise error_of(str(answer["code"]), str(answer["message"]))
            definitions = None
            if answer["definitions"] is not None:
                definitions = message("tensorflow.serving.SignatureDefMap")()
                definitions.ParseFromString(base64.b64decode(answer["definitions"]))
            self._check_release(str(answer["release"]))
            manifest = manifest_of(str(answer["manifest"]).encode(), "a worker's manifest")
            return WorkerDescription(manifest, definitions, int(answer["resident_bytes"]))
        except ChannelClosed as error:
            raise WorkerDied(self._ending() + self._advice()) from error

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Answer:
        """Blocks until its model has answered. Raises what that raised, and WorkerDied."""
        answer = self._ask({"kind": "predict", "signature": signature}, inputs)
        if answer is None:
            self.kill()
            raise WorkerDied("it gave no outputs")
        return answer

    def begin(self, signature: str, inputs: Mapping[str, Array]) -> Answer | None:
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

    def _ask(self, request: Mapping[str, Any], inputs: Mapping[str, Array] | None = None) -> Answer | None:
        try:
            self._channel.send(request, inputs)
            answer, outputs = self._channel.receive()
            failed = error_of(str(answer["code"]), str(answer["message"])) if answer["kind"] == "failed" else None
            told = answer.get("errors", {}).items()
            errors = {int(row): error_of(str(code), str(why), details) for row, (code, why, details) in told}
        except ChannelClosed as error:
            raise WorkerDied(self._ending()) from error
        except _NO_ANSWER as error:
            self.kill()
            raise WorkerDied(f"it gave an answer that makes no sense ({error})") from error
        if failed is not None:
            raise failed
        return None if answer["kind"] == "end" else Answer(outputs, errors)

    def close(self) -> None:
        """Has it unload, and ends it by force where that takes more than a second."""
        try:
            self._channel.send({"kind": "close"})
            self._process.wait(_CLOSE_SECONDS)
        except (ChannelClosed, subprocess.TimeoutExpired):
            self.kill()
        self._let_go()

    def kill(self) -> None:
        """Ends it by force; whoever waits for its answer gets WorkerDied."""
        self._process.kill()

    def bury(self) -> None:
        """Makes sure that it is gone, and lets go of what it had."""
        self.kill()
        self._let_go()

    def await_end(self) -> str:
        """Blocks until its process has ended, whatever for; how it ended."""
        self._process.wait()
        return self._ending()

    def _let_go(self) -> None:
        """Gives the channel back once its process has ended; by one thread at a time, since a descriptor that two close
        is somebody else's the second time."""
        self._process.wait()
        with self._letting_go:
            self._channel.close()

    def _check_release(self, release: str) -> None:
        if release != (ours := metadata.version("tidegate")):
            raise FailedPrecondition(
                f"{self._place.interpreter} has Tidegate {release}, the engine {ours}: install {ours} there"
            )

    def _advice(self) -> str:
        """What to try where another Python did not get as far as to say what is wrong."""
        if not self._place.is_foreign:
            return ""
        try_it = f"{self._place.interpreter} -P -c 'import tidegate_serving.worker'"
        return f"; see whether its Python has Tidegate and what the model needs: {try_it}"

    def _ending(self) -> str:
        try:
            status = self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        if status < 0:
            return f"it was ended by {_name(-status)}"
        return f"it ended with status {status}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
