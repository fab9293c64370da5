"""Loads one version in a process of its own and answers batches, for as long as the engine that started it lives.

A worker pool starts `python -m tidegate_serving.worker DESCRIPTOR` with one end of a socket; what is said over it
stands in `workers.channel`.
"""

from __future__ import annotations

import base64
import logging
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from importlib import metadata
from typing import Any

from tidegate_serving.contract.errors import ModelFailed, TidegateError, words_of
from tidegate_serving.contract.manifest import manifest_of, verify_files
from tidegate_serving.contract.signature import FirstAxis
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.complaints import Complaints
from tidegate_serving.platforms.loader import Answer, DescribesItself, LoadedVersion, as_answer, each, messages_of
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.tensor_checks import check_outputs
from tidegate_serving.platforms.warm_up.runner import warm_up
from tidegate_serving.probing.state import resident_bytes
from tidegate_serving.workers.channel import Channel, ChannelClosed
from tidegate_serving.workers.task import WorkerTask

_ENGINE_GONE = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until the engine says close, or is gone. 0 after a close, 1 where the version did not load or nobody is
    there any more."""
    (descriptor,) = sys.argv[1:] if arguments is None else arguments
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Whoever stops the engine by a signal to all its processes means the engine, which has batches to finish here.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end = socket.socket(fileno=int(descriptor))
    threading.Thread(target=_end_with_engine, args=(end,), name="tidegate-engine-watch", daemon=True).start()
    try:
        return _serve(Channel(end))
    except ChannelClosed:
        return _ENGINE_GONE


def _end_with_engine(end: socket.socket) -> None:
    """Ends this process, whatever the model does, once the engine has gone."""
    poll = select.poll()
    poll.register(end.fileno(), select.POLLRDHUP)
    poll.poll()
    os._exit(_ENGINE_GONE)


def _serve(channel: Channel) -> int:
    request, _ = channel.receive()
    try:
        loaded = _load(WorkerTask.from_dict(request["task"]))
    except (Exception, SystemExit) as error:
        channel.send(_failed(error))
        return 1
    channel.send(_description(loaded))
    complain = Complaints(loaded.manifest.id)
    while True:
        request, inputs = channel.receive()
        if request["kind"] == "close":
            loaded.servable.close()
            return 0
        name = str(request["signature"])
        try:
            if loaded.manifest.signatures[name].streaming:
                _stream(channel, _messages(loaded, name, inputs, complain))
            else:
                _send(channel, _predict(loaded, name, inputs, complain))
        except TidegateError as error:
            channel.send(_failed(error))


def _load(task: WorkerTask) -> LoadedVersion:
    """Verified again: a worker that is started later must not load other files than the first."""
    registry = installed_platforms(task.options)
    manifest = manifest_of(task.manifest.encode(), str(task.directory))
    verify_files(manifest, task.directory)
    if not manifest.signatures:
        manifest = registry.discover(task.directory, manifest).complete(manifest)
    loaded = LoadedVersion(manifest, registry.load(task.directory, manifest))
    warm_up(loaded, task.directory, task.warm_up())
    return loaded


def _description(loaded: LoadedVersion) -> dict[str, Any]:
    servable, definitions = loaded.servable, None
    if isinstance(servable, DescribesItself):
        definitions = base64.b64encode(servable.signature_defs().SerializeToString()).decode()
    manifest = loaded.manifest.to_bytes().decode()
    return {
        "kind": "loaded",
        "manifest": manifest,
        "definitions": definitions,
        "resident_bytes": resident_bytes(),
        "release": metadata.version("tidegate"),
    }


def _predict(
    loaded: LoadedVersion, name: str, inputs: Mapping[str, Array], complain: Callable[[BaseException], None]
) -> Answer:
    servable_id, signature = loaded.manifest.id, loaded.manifest.signatures[name]
    try:
        result = loaded.servable.predict(name, inputs)
    except TidegateError:
        raise
    except (Exception, SystemExit) as error:
        complain(error)
        raise ModelFailed(f"{servable_id} raised {words_of(error)}") from error
    answer = as_answer(result)
    rows = None if signature.first_axis is FirstAxis.FREE else len(next(iter(inputs.values())))
    return Answer(check_outputs(servable_id, signature, rows, answer.outputs), answer.errors)


def _stream(channel: Channel, messages: Generator[Answer]) -> None:
    """Sends message after message, each when it is asked for."""
    with closing(messages):
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
    except TidegateError:
        raise
    except (Exception, SystemExit) as error:
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
