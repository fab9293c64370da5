"""The loader, by which the manager loads and unloads one version, and the servable, the model that loading gives.

After TensorFlow Serving's `Loader`. Platforms make servables, the data plane's executor calls them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tidegate_serving.contract.errors import ModelFailed, TidegateError, words_of
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.tensors import Array


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model says about one batch: outputs by name with the batch on axis 0, and errors by row."""

    outputs: Mapping[str, Any]
    errors: Mapping[int, TidegateError] = field(default_factory=dict)


class Servable(Protocol):
    """A loaded model. Called by one thread at a time unless its batching says otherwise."""

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any] | Answer:
        """Outputs by name for inputs by name; strings come as objects of `bytes`. Any exception fails the batch."""

    def close(self) -> None:
        """Gives back what the model holds; the servable is not called afterwards."""


def ask(servable: Servable, signature: str, inputs: Mapping[str, Array]) -> Answer:
    """A servable's answer, with whatever its code raised as ModelFailed; errors of our family pass as they are."""
    try:
        result = servable.predict(signature, inputs)
    except TidegateError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelFailed(f"the model raised {words_of(error)}") from error
    return result if isinstance(result, Answer) else Answer(result)


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


@dataclass(frozen=True, slots=True)
class LoadedVersion:
    """A version that can answer: its manifest and its servable, and, where whoever loaded it knows, the bytes that it
    really takes, by device (`ram`, `gpu:0`)."""

    manifest: Manifest
    servable: Servable
    measured: Mapping[str, int] | None = None


class Loader(Protocol):
    """Brings one version to life and lets it die; each attempt to load calls `load` again."""

    def estimate(self) -> int | Mapping[str, int]:
        """Bytes that the loaded version will need at most: of memory, or by device (`ram`, `gpu:0`)."""

    def load(self) -> LoadedVersion:
        """Blocks until the version can answer. Raises the contract's errors."""

    def unload(self) -> None:
        """Blocks until memory is given back."""
