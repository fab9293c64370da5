"""Loads one version in a process of its own, exactly as the engine would, and answers frames on its standard input.

The robustness gate starts `python -m tidegate_serving.probe VERSION_DIRECTORY`, writes frames of
`contract.probe_frames`, reads answers; whatever the version does, crashing included, it does to this process only.
"""

from __future__ import annotations

import argparse
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unsupported
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.contract.probe_frames import Frame, read_frame, write_frame
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature
from tidegate_serving.contract.words import words_of
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.tensor_checks import check_inputs
from tidegate_serving.platforms.version_loader import VersionLoader
from tidegate_serving.probing import clock
from tidegate_serving.probing.calls import at_once, one_call
from tidegate_serving.probing.packages import lacking
from tidegate_serving.probing.pickled import PickledBy
from tidegate_serving.probing.state import OwnState, resident_bytes
from tidegate_serving.probing.tries import Tries

_Result = TypeVar("_Result")


class Probe:
    """One version: loaded on a thread for loads, asked on a thread for batches, as in the engine; never on the main."""

    def __init__(self, directory: Path, options: PlatformOptions, clock_by: int | None = None) -> None:
        self._directory = directory
        self._options = options
        self._clock = clock_by
        self._loads = OwnThread("tidegate-load")
        self._batches = OwnThread("tidegate-executor")
        self._state = OwnState()
        self._tries = Tries(directory)
        self._pickled = PickledBy()
        self._integers: dict[str, None] = {}
        self._loader: VersionLoader | None = None

    def load(self) -> Frame:
        """`loaded` or `failed`; verified and warmed up. Nothing is asked of a verdict: the gate makes it."""
        begun = time.monotonic()
        self._tries.watch()
        self._pickled.watch()
        if self._clock is not None:
            clock.move(self._clock)
        try:
            self._loaded = self._loads.call(self._load)
        except TidegateError as error:
            return Frame("failed", "", self._words(error))
        if self._clock is not None:
            clock.move_pandas()
        head = self._head(time.monotonic() - begun)
        signatures = {name: signature.to_dict() for name, signature in self._loaded.manifest.signatures.items()}
        return Frame("loaded", "", {**head, "signatures": signatures})

    def answer(self, request: Frame, tell: Callable[[Frame], None]) -> Frame:
        """The answer to one frame: `outputs`, `stopped`, or `error` for whatever the version raised.

        `tell` takes frames that go out before it.
        """
        try:
            if request.kind == "predict":
                return self._predict(request)
            if request.kind == "concurrent":
                return self._concurrent(request, tell)
            if request.kind == "stop":
                return self._stop(request)
            raise Unsupported(f"frame {request.kind!r} is unknown: send predict, concurrent or stop")
        except BaseException as error:  # a thread of the engine survives all of these too
            return Frame("error", request.token, {**self._words(error), **self._head(0.0)})

    def _load(self) -> LoadedVersion:
        manifest, digest = read_manifest(self._directory)
        path = VersionReference(manifest.id.version, self._directory, digest, manifest.platform)
        self._loader = VersionLoader(manifest.id, path, installed_platforms(self._options), _admit)
        return self._loader.load()

    def _predict(self, request: Frame) -> Frame:
        name, signature = self._signature(request)
        rows = check_inputs(signature, request.tensors)
        called = self._batches.call(lambda: one_call(self._loaded, name, request.tensors, rows))
        self._integers |= dict.fromkeys(called.integers)
        return Frame("outputs", request.token, self._head(called.seconds), called.outputs)

    def _concurrent(self, request: Frame, tell: Callable[[Frame], None]) -> Frame:
        name, signature = self._signature(request)
        check_inputs(signature, request.tensors)
        calls = [(int(first), int(last)) for first, last in request.head["calls"]]
        threads, seconds = int(request.head["threads"]), float(request.head["seconds"])
        progress = Frame("progress", request.token)
        outputs = at_once(self._loaded, name, request.tensors, calls, threads, seconds, lambda: tell(progress))
        return Frame("outputs", request.token, self._head(0.0), outputs)

    def _stop(self, request: Frame) -> Frame:
        begun = time.monotonic()
        if self._loader is not None:
            self._loads.call(self._loader.unload)
        return Frame("stopped", request.token, {"seconds": time.monotonic() - begun})

    def _signature(self, request: Frame) -> tuple[str, Signature]:
        name = str(request.head.get("signature", SERVING_DEFAULT))
        signature = self._loaded.manifest.signatures.get(name)
        if signature is None:
            known = ", ".join(self._loaded.manifest.signatures)
            raise InvalidInput(f"signature {name!r} of {self._loaded.manifest.id} is unknown: use one of {known}")
        return name, signature

    def _head(self, seconds: float) -> dict[str, object]:
        state = {**self._state.look(), **self._tries.look()}
        state |= {"integers": list(self._integers), "pickled_by": self._pickled.look()}
        return {"seconds": seconds, "resident_bytes": resident_bytes(), "state": state}

    def _words(self, error: BaseException) -> dict[str, object]:
        """An error for a frame: its code and text, the names of the classes of what the model itself raised, and what
        it lacks here."""
        cause = error.__cause__ if isinstance(error, TidegateError) and error.__cause__ is not None else error
        raised = [kind.__name__ for kind in type(cause).__mro__ if kind not in (object, BaseException)]
        more = {"raised": raised, "lacks": lacking(error, self._directory)}
        code, message = "internal", f"the model raised {words_of(error)}"
        if isinstance(error, TidegateError):
            code, message = error.code, error.message
        return {"code": code, "message": message, **more}


class OwnThread:
    """A daemon thread that runs one task after another, as the engine's threads for loads and batches do.

    What works on a program's main thread (signal handlers, an event loop) may not work where the engine runs a model.
    """

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, task: Callable[[], _Result]) -> _Result:
        """What the task returns or raises, there."""
        future: Future[_Result] = Future()
        self._tasks.put((task, future))
        return future.result()

    def _run(self) -> None:
        while True:
            task, future = self._tasks.get()
            try:
                future.set_result(task())
            except BaseException as error:  # handed to the caller, whatever it is
                future.set_exception(error)
            del task, future


def serve(probe: Probe, requests: BinaryIO, answers: BinaryIO) -> int:
    """Loads, then answers until told to stop or the requests end. Returns 0, or 1 where the version did not load."""
    first = probe.load()
    write_frame(answers, first)
    if first.kind == "failed":
        return 1
    while (request := read_frame(requests)) is not None:
        response = probe.answer(request, lambda frame: write_frame(answers, frame))
        write_frame(answers, response)
        if response.kind == "stopped":
            break
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Moves the frames' stream away from standard output first, so that a model that prints corrupts nothing."""
    parser = argparse.ArgumentParser(prog="tidegate_serving.probe", description=__doc__)
    parser.add_argument("directory", type=Path, help="version directory with a manifest.json")
    parser.add_argument("--allow-pickle", action="store_true", help="load pickle files, which can run any code")
    parser.add_argument("--clock-by", type=int, metavar="SECONDS", help="let the model's clock be so much ahead")
    parsed = parser.parse_args(arguments)
    requests, answers = _take_standard_streams()
    options = PlatformOptions(allow_pickle=parsed.allow_pickle)
    return serve(Probe(parsed.directory, options, parsed.clock_by), requests, answers)


def _take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Frames keep the original descriptors; for the model, standard input is empty and standard output is the error
    stream.
    """
    sys.stdout.flush()
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _admit(manifest: Manifest, digest: str) -> None:
    """The probe runs before there is a verdict."""


if __name__ == "__main__":
    sys.exit(main())
