"""Loads versions outside the engine's process and answers batches, for as long as the engine that started it lives.

`workers.host` has it started with one end of a socket, over which the channels of its workers come, and one of a pipe,
by which it hears of its keeper's end; what is said over the channels stands in `workers.channel`.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import io
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.contract.manifest import manifest_of
from tidegate_serving.contract.signature import FirstAxis
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.words import trace_of, words_of
from tidegate_serving.forked_signals import own_signals
from tidegate_serving.log_lines import log_to_stderr
from tidegate_serving.platforms.complaints import Complaints
from tidegate_serving.platforms.directory_state import DirectoryState
from tidegate_serving.platforms.loader import (
    Answer,
    DescribesItself,
    LoadedVersion,
    as_answer,
    device_bytes,
    each,
    messages_of,
)
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.tensor_checks import check_outputs
from tidegate_serving.platforms.unpublished import verify_described
from tidegate_serving.platforms.warm_up.runner import warm_up
from tidegate_serving.probing.state import resident_bytes
from tidegate_serving.workers.channel import Channel, ChannelClosed
from tidegate_serving.workers.lost_gpu import end, gpu_error
from tidegate_serving.workers.short_turns import take_short_turns
from tidegate_serving.workers.task import WorkerTask

_ENGINE_GONE = 1
_SWITCH_SECONDS = 0.0005
_END_SECONDS = 1.0
_MOST_EXPENDABLE, _MORE_EXPENDABLE = 1000, 500
_log = logging.getLogger(__name__)


class Held:
    """What the versions of this process hold: all that it has, each byte told once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = 0

    def take(self) -> int:
        """Bytes that are held and not told of yet, the process itself included."""
        with self._lock:
            more = max(0, resident_bytes() - self._told)
            self._told += more
            return more

    def give_back(self, told: int) -> None:
        """A version that held so many has gone."""
        with self._lock:
            self._told -= told


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs workers until the engine wants none any more, or is gone. 0 where all versions are unloaded then; else this
    process ends at once."""
    descriptor, pipe = sys.argv[1:] if arguments is None else arguments
    log_to_stderr()
    # For so long, each time, a model waits for Python while another computes in it.
    sys.setswitchinterval(_SWITCH_SECONDS)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what a model prints is seen at once, and not lost with it
    # Whoever stops the engine by a signal to all its processes means the engine, which has batches to finish here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _stay_at_sigterm()
    _end_with_keeper(int(pipe))
    _go_first_where_memory_is_short()
    held, channels, threads = Held(), list[Channel](), list[threading.Thread]()
    with socket.socket(fileno=int(descriptor)) as control:
        control.set_inheritable(False)  # whatever program a model starts, or becomes: the sockets are not for it
        os.register_at_fork(after_in_child=lambda: _leave_to_parent(control, channels))
        while end := _next(control):
            channels = [channel for channel in channels if channel.is_open]
            threads = [thread for thread in threads if thread.is_alive()]
            channels.append(Channel(end))
            threads.append(threading.Thread(target=_work, args=(channels[-1], held), daemon=True))
            threads[-1].start()
    threading.Thread(target=_end_anyway, name="tidegate-end", daemon=True).start()
    for thread in threads:
        thread.join()
    return 0


def _stay_at_sigterm() -> None:
    """Takes no notice of SIGTERM, which ends whatever a model forks or starts, as it does elsewhere."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # were it ignored, programs that a model starts would ignore it too
    signal.siginterrupt(signal.SIGTERM, False)
    own_signals([signal.SIGTERM], _end_at_sigterm)


def _end_at_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_with_keeper(pipe: int) -> None:
    """Has the system end this process and its group as soon as nobody has the pipe's other end any more, also while a
    model keeps all of Python waiting."""
    fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def _go_first_where_memory_is_short() -> None:
    """A system without memory ends this process before the engine, which goes on without it."""
    own = Path("/proc/self/oom_score_adj")
    with contextlib.suppress(OSError):  # not every system has it, or lets it be written
        own.write_text(str(min(_MOST_EXPENDABLE, int(own.read_text()) + _MORE_EXPENDABLE)))


def _leave_to_parent(control: socket.socket, channels: Sequence[Channel]) -> None:
    """In a child that a model forked: the sockets are not for it."""
    control.close()
    for channel in channels:
        channel.leave_to_parent()


@contextlib.contextmanager
def _without_children() -> Iterator[None]:
    """A child that a model forked, and that comes back out of the model's code, ends here."""
    own = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != own:
            os._exit(0)


def _next(control: socket.socket) -> socket.socket | None:
    """The engine's channel to one more worker; None once it wants no more. Says that Python runs where it is asked."""
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not data:
                return None
            if data != b"?":
                end = socket.socket(fileno=descriptors[0])
                end.set_inheritable(False)
                return end
            control.send(b"!")
        except ConnectionError:  # the engine closed its end and has not read all that was said
            return None


def _end_anyway() -> None:
    """Ends this process, whatever a model does."""
    time.sleep(_END_SECONDS)
    os._exit(_ENGINE_GONE)


def _work(channel: Channel, held: Held) -> None:
    try:
        _serve(channel, held)
    except ChannelClosed:
        _log.debug("the engine has gone")
    finally:
        channel.close()


def _serve(channel: Channel, held: Held) -> None:
    request, _ = channel.receive()
    try:
        with _without_children():
            loaded = _load(WorkerTask.from_dict(request["task"]))
    except BaseException as error:
        cause = error.__cause__ if isinstance(error, TidegateError) else error
        trace = "" if cause is None else trace_of(cause)
        channel.send(_failed(error) | {"trace": trace})
        return
    bytes_held = held.take()
    try:
        channel.send(_description(loaded, bytes_held))
        take_short_turns()
        _answer(channel, loaded)
    finally:
        _unload(loaded)
        held.give_back(bytes_held)


def _unload(loaded: LoadedVersion) -> None:
    try:
        loaded.servable.close()
    except Exception as error:
        _log.error("%s did not unload cleanly\n%s", loaded.manifest.id, trace_of(error))


def _answer(channel: Channel, loaded: LoadedVersion) -> None:
    """Until the engine says close."""
    complain = Complaints(loaded.manifest.id)
    while True:
        request, inputs = channel.receive()
        if request["kind"] == "close":
            return
        with _without_children():
            _answer_one(channel, loaded, str(request["signature"]), inputs, complain)


def _answer_one(
    channel: Channel,
    loaded: LoadedVersion,
    name: str,
    inputs: Mapping[str, Array],
    complain: Callable[[BaseException], None],
) -> None:
    try:
        if loaded.manifest.signatures[name].streaming:
            _stream(channel, _messages(loaded, name, inputs, complain))
        else:
            _send(channel, _predict(loaded, name, inputs, complain))
    except TidegateError as error:
        lost = gpu_error()
        channel.send(_failed(error) | {"ends": bool(lost)})
        if lost:
            end(lost)


def _load(task: WorkerTask) -> LoadedVersion:
    """Verified again: a worker that is started later must not load other files than the first."""
    registry = installed_platforms(task.options)
    manifest, before = manifest_of(task.manifest.encode(), str(task.directory)), DirectoryState.of(task.directory)
    verify_described(manifest, task.directory)
    if not manifest.signatures:
        manifest = registry.discover(task.directory, manifest).complete(manifest)
    servable = registry.load(task.directory, manifest)
    loaded = LoadedVersion(manifest, servable, device_bytes(servable))
    warm_up(loaded, task.directory, task.warm_up())
    if any(entry.sha256 for entry in manifest.files):
        before.check(task.directory, manifest.id)
    return loaded


def _description(loaded: LoadedVersion, bytes_held: int) -> dict[str, Any]:
    servable, definitions = loaded.servable, None
    if isinstance(servable, DescribesItself):
        definitions = base64.b64encode(servable.signature_defs().SerializeToString()).decode()
    manifest = loaded.manifest.to_bytes().decode()
    return {
        "kind": "loaded",
        "manifest": manifest,
        "definitions": definitions,
        "resident_bytes": bytes_held,
        "device_bytes": dict(loaded.measured),
        "release": metadata.version("tidegate"),
    }


def _predict(
    loaded: LoadedVersion, name: str, inputs: Mapping[str, Array], complain: Callable[[BaseException], None]
) -> Answer:
    servable_id, signature = loaded.manifest.id, loaded.manifest.signatures[name]
    rows = None if signature.first_axis is FirstAxis.FREE else len(next(iter(inputs.values())))
    try:
        answer = as_answer(loaded.servable.predict(name, inputs))
        return Answer(check_outputs(servable_id, signature, rows, answer.outputs), answer.errors)
    except TidegateError:
        raise
    except BaseException as error:
        complain(error)
        raise ModelFailed(f"{servable_id} raised {words_of(error)}") from error


def _stream(channel: Channel, messages: Generator[Answer]) -> None:
    """Sends message after message, each when it is asked for."""
    with contextlib.closing(messages):
        for message in messages:
            _send(channel, message)
            if channel.receive()[0]["kind"] == "stop":
                break
    channel.send({"kind": "end"})


def _messages(
    loaded: LoadedVersion, name: str, inputs: Mapping[str, Array], complain: Callable[[BaseException], None]
) -> Generator[Answer]:
    servable_id, signature = loaded.manifest.id, loaded.manifest.signatures[name]

    def checked(message: Any) -> Answer:
        answer = as_answer(message)
        return Answer(check_outputs(servable_id, signature, None, answer.outputs), answer.errors)

    try:
        yield from each(messages_of(servable_id, name, loaded.servable.predict(name, inputs)), checked)
    except (TidegateError, GeneratorExit):
        raise
    except BaseException as error:
        complain(error)
        raise ModelFailed(f"{servable_id} raised {words_of(error)}") from error


def _send(channel: Channel, answer: Answer) -> None:
    channel.send({"kind": "outputs", "errors": _errors(answer)}, answer.outputs)


def _errors(answer: Answer) -> dict[str, list[str | None]]:
    return {str(row): [error.code, error.message, error.details] for row, error in answer.errors.items()}


def _failed(error: BaseException) -> dict[str, str]:
    if isinstance(error, TidegateError):
        return {"kind": "failed", "code": error.code, "message": error.message}
    return {"kind": "failed", "code": ModelFailed.code, "message": words_of(error)}


if __name__ == "__main__":
    sys.exit(main())
