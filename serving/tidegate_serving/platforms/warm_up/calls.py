"""One call of a version while it is warmed up, checked as the engine checks requests and answers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import LoadedVersion, ask
from tidegate_serving.platforms.tensor_checks import check_inputs, check_outputs

Inputs = Mapping[str, Array]


def predict(loaded: LoadedVersion, name: str, inputs: Inputs) -> None:
    """Asks by the signature of that name. Raises what the model raises, or says is wrong with a row."""
    signature = signature_of(loaded.manifest, name)
    rows = check_inputs(signature, inputs)
    answer = ask(loaded.servable, name, inputs)
    for wrong in answer.errors.values():
        raise wrong
    check_outputs(loaded.manifest.id, signature, rows, answer.outputs)


def signature_of(manifest: Manifest, name: str) -> Signature:
    """A version's signature. InvalidInput, in TensorFlow Serving's words, where it has none of that name."""
    if name not in manifest.signatures:
        raise InvalidInput(f'Serving signature name: "{name}" not found in signature def')
    return manifest.signatures[name]


def stretched(inputs: Inputs, rows: int) -> Inputs:
    """The same rows over and over, until there are `rows`."""
    return {name: np.resize(array, (rows, *array.shape[1:])) for name, array in inputs.items()}
