"""TensorFlow SavedModels with all their signatures, run in a session per version as TensorFlow Serving runs them.

Settings of the engine for this platform: `intra_op_threads`, `inter_op_threads` (0: TensorFlow decides),
`memory_growth`, `memory_fraction` (of a GPU), `tags` (of the meta graph, separated by commas; default `serve`),
`session_config` (a ConfigProto as text). A signature of the manifest may leave out outputs; the manifest's event time
is dropped where the graph lacks it; a column of shape [-1] becomes [-1, 1] where the graph wants that, and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.arrays import as_column, as_matrix
from tidegate_serving.platforms.fixed_batch import in_pieces
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.platform import ModelDescription, PlatformOptions
from tidegate_serving.platforms.settings import Settings
from tidegate_serving.platforms.tensorflow.saved_model import read_meta_graph
from tidegate_serving.platforms.tensorflow.session import (
    error_of_op,
    import_tensorflow,
    open_session,
    prepared_run,
)
from tidegate_serving.platforms.tensorflow.signatures import (
    batch_of,
    definitions_as_served,
    discovered_signatures,
    hides_outputs,
    input_dtypes,
    output_dtypes,
)
from tidegate_serving.platforms.tensorflow.trial import signature_by_trial

NAME = "tensorflow"
KEYS = ("intra_op_threads", "inter_op_threads", "memory_growth", "memory_fraction", "session_config", "tags")


class TensorflowPlatform:
    """Loads a SavedModel into a session."""

    def __init__(self, options: PlatformOptions) -> None:
        self._settings = Settings(NAME, options.settings.get(NAME, {}), KEYS)

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """The SignatureDefs of the SavedModel, read without TensorFlow; outputs of unknown rank need a trial run."""
        definitions = read_meta_graph(directory, self._tags()).signature_def
        found = discovered_signatures(definitions)
        hidden = [name for name, signature in found.signatures.items() if hides_outputs(signature)]
        return self._tried(directory, definitions, found, hidden) if hidden else found

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A session whose SignatureDefs are checked against the manifest's signatures."""
        definitions = read_meta_graph(directory, self._tags()).signature_def
        wanted = {name: _definition(manifest, name, definitions) for name in manifest.signatures}
        session = open_session(directory, self._tags(), self._settings)
        calls = {}
        for name, definition in wanted.items():
            calls[name] = _Call.make(session, manifest.signatures[name], definition)
        return TensorflowServable(session, calls, definitions_as_served(definitions, manifest.signatures))

    def _tried(
        self, directory: Path, definitions: Mapping[str, Any], found: ModelDescription, hidden: Sequence[str]
    ) -> ModelDescription:
        signatures = dict(found.signatures)
        session = open_session(directory, self._tags(), self._settings)
        try:
            for name in hidden:
                signatures[name] = signature_by_trial(session, definitions[name], signatures[name])
        finally:
            session.close()
        return replace(found, signatures=signatures)

    def _tags(self) -> frozenset[str]:
        return frozenset(tag for part in self._settings.text("tags", "serve").split(",") if (tag := part.strip()))


@dataclass(frozen=True, slots=True)
class _Call:
    """One signature as a prepared run: feeds by name with their rank, outputs by name with theirs, a fixed batch or
    none.
    """

    run: Any
    feeds: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    size: int | None

    @classmethod
    def make(cls, session: Any, signature: Signature, definition: Any) -> _Call:
        feeds = sorted(definition.inputs)
        run = prepared_run(
            session,
            [definition.inputs[name].name for name in feeds],
            [definition.outputs[spec.name].name for spec in signature.outputs],
        )
        ranks = [len(definition.inputs[name].tensor_shape.dim) for name in feeds]
        outputs = tuple((spec.name, len(spec.shape)) for spec in signature.outputs)
        return cls(run, tuple(zip(feeds, ranks, strict=True)), outputs, batch_of(definition))

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name."""
        fed = {name: as_matrix(inputs[name], rank) for name, rank in self.feeds}
        found = self._once(fed) if self.size is None else in_pieces(self._once, fed, self.size)
        return {name: as_column(found[name], rank) for name, rank in self.outputs}

    def _once(self, fed: Mapping[str, Array]) -> dict[str, Array]:
        results = self.run(*fed.values())
        return {name: _array(result) for (name, _), result in zip(self.outputs, results, strict=True)}


class TensorflowServable:
    """Runs the graph once per batch; TensorFlow gives up the GIL meanwhile."""

    def __init__(self, session: Any, calls: Mapping[str, _Call], definitions: Any) -> None:
        self._session = session
        self._calls = dict(calls)
        self._definitions = definitions
        self._op_error = import_tensorflow().errors.OpError

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """The signature's outputs. What an op raises comes with TensorFlow's message and code."""
        try:
            return self._calls[signature](inputs)
        except (self._op_error, UnicodeDecodeError) as error:
            raise error_of_op(error) from error

    def run_session(self, feeds: Mapping[str, Array], fetches: Sequence[str], targets: Sequence[str]) -> list[Array]:
        """Tensors of the graph by their own names. Errors as `predict` raises them, InvalidInput for unknown names."""
        graph = self._session.graph
        try:
            operations = [graph.as_graph_element(name) for name in targets]
            results: list[Array] = self._session.run([*fetches, *operations], feed_dict=dict(feeds))
        except (self._op_error, UnicodeDecodeError) as error:
            raise error_of_op(error) from error
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"the session cannot run this: {error}") from error
        return results[: len(fetches)]

    def signature_defs(self) -> Any:
        """The SavedModel's own, as `definitions_as_served` has them."""
        return self._definitions

    def close(self) -> None:
        """Frees variables, tables and threads of the session."""
        self._calls = {}
        self._session.close()


def _array(result: Any) -> Array:
    """A session gives one string as bytes, and everything else as numpy does."""
    return np.asarray(result, dtype=object) if isinstance(result, bytes) else result


def _definition(manifest: Manifest, name: str, definitions: Mapping[str, Any]) -> Any:
    """The SignatureDef behind a signature of the manifest. InvalidInput where the two do not fit."""
    if name not in definitions:
        raise InvalidInput(
            f"the SavedModel of {manifest.id} has no signature {name!r}: it has {', '.join(definitions)}"
        )
    definition, signature = definitions[name], manifest.signatures[name]
    dtypes, outputs = input_dtypes(definition), output_dtypes(definition)
    missing = sorted(set(dtypes) - set(signature.input_names))
    if missing:
        raise InvalidInput(f"signature {name!r} of the SavedModel wants input {missing[0]!r}, which its manifest lacks")
    for spec in signature.inputs:
        if spec.name not in dtypes:
            if spec.name != manifest.event_time:
                raise InvalidInput(
                    f"signature {name!r} of the SavedModel has no input {spec.name!r}: mend the manifest"
                )
        elif spec.dtype != dtypes[spec.name]:
            raise InvalidInput(f"input {spec.name!r} of the SavedModel is {dtypes[spec.name]}, not {spec.dtype}")
    unknown = [spec.name for spec in signature.outputs if spec.name not in outputs]
    if unknown:
        raise InvalidInput(f"signature {name!r} of the SavedModel has no output {unknown[0]!r}: mend the manifest")
    return definition
