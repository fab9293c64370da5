"""The loader, by which the manager loads and unloads one version, and the servable, the model that loading gives.

After TensorFlow Serving's `Loader`. Platforms make servables, the data plane's executor calls them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.words import words_of

Changed = TypeVar("Changed")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model says about one batch: outputs by name with the batch on axis 0, and errors by row."""

    outputs: Mapping[str, Any]
    errors: Mapping[int, TidegateError] = field(default_factory=dict)


class Servable(Protocol):
    """A loaded model. Called by one thread at a time unless its batching says otherwise."""

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any] | Answer | Iterator[Any]:
        """Outputs by name for inputs by name; strings come as objects of `bytes`. Any exception fails the batch.

        A streaming signature's are an iterator of such outputs, which is closed where nobody wants more of them.
        """

    def close(self) -> None:
        """Gives back what the model holds; the servable is not called afterwards."""


def ask(servable: Servable, signature: str, inputs: Mapping[str, Array]) -> Answer:
    """A servable's answer, with whatever its code raised as ModelFailed; errors of our family pass as they are.

    Of a stream it is the last message, with all before it made and dropped.
    """
    try:
        result = servable.predict(signature, inputs)
        if isinstance(result, Iterator):
            result = _last(signature, result)
    except TidegateError:
        raise
    except BaseException as error:
        raise ModelFailed(f"the model raised {words_of(error)}") from error
    return as_answer(result)


def _last(signature: str, messages: Iterator[Any]) -> Any:
    found = deque(messages, maxlen=1)
    if not found:
        raise ModelFailed(f"the model gave no message for its streaming signature {signature!r}: yield one at least")
    return found[0]


def as_answer(result: Any) -> Answer:
    """Outputs by name as an answer without errors; an answer as it is."""
    return result if isinstance(result, Answer) else Answer(result)


def messages_of(id: ServableId, signature: str, result: Any) -> Iterator[Any]:
    """What a servable gave for a streaming signature, as messages. ModelFailed where it is none."""
    if isinstance(result, Iterator):
        return result
    raise ModelFailed(
        f"{id} returned {type(result).__name__} for its streaming signature {signature!r}: yield a dict of outputs for "
        "each message"
    )


def each(messages: Iterator[Any], change: Callable[[Any], Changed]) -> Iterator[Changed]:
    """Every message, changed. Closing it closes the messages, where they can be closed as a generator's can."""
    try:
        for message in messages:
            yield change(message)
    finally:
        close = getattr(messages, "close", None)
        if close is not None:
            close()


@runtime_checkable
class RunsSessions(Protocol):
    """A servable that can run any tensor of its graph, as TensorFlow's `Session.run` does."""

    def run_session(self, feeds: Mapping[str, Array], fetches: Sequence[str], targets: Sequence[str]) -> list[Array]:
        """Values of `fetches`, tensors such as `y:0`; `targets` are operations that are run as well."""


@runtime_checkable
class DescribesItself(Protocol):
    """A servable whose model says how it is called, in TensorFlow's words."""

    def signature_defs(self) -> Any:
        """A `tensorflow.serving.SignatureDefMap`, which clients get as the version's metadata."""


@runtime_checkable
class KnowsDeviceBytes(Protocol):
    """A servable that knows the bytes that its model holds on other devices than the machine's memory."""

    def device_bytes(self) -> Mapping[str, int]:
        """By device, such as `gpu:0`; empty for none."""


def device_bytes(servable: Servable) -> Mapping[str, int]:
    """What a servable says that its model holds by device; empty where it cannot tell."""
    return servable.device_bytes() if isinstance(servable, KnowsDeviceBytes) else {}


@dataclass(frozen=True, slots=True)
class LoadedVersion:
    """A version that can answer: its manifest and its servable, and the bytes that it really takes by device (`ram`,
    `gpu:0`), of those devices for which whoever loaded it knows them."""

    manifest: Manifest
    servable: Servable
    measured: Mapping[str, int] = field(default_factory=dict)


class Loader(Protocol):
    """Brings one version to life and lets it die; each attempt to load calls `load` again."""

    def estimate(self) -> int | Mapping[str, int]:
        """Bytes that the loaded version will need at most: of memory, or by device (`ram`, `gpu:0`)."""

    def load(self) -> LoadedVersion:
        """Blocks until the version can answer. Raises the contract's errors."""

    def unload(self) -> None:
        """Blocks until memory is given back."""
