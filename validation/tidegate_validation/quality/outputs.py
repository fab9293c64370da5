"""Which output of a version is its prediction, as one number per example.

The quality gate asks once per version; metadata `quality.output` in the manifest names the output if it is not plain.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.contract.tensors import Array

METADATA = "quality.output"
_LIKELY = ("probability", "probabilities", "proba", "score", "scores", "prediction", "predictions", "output")


def prediction_output(manifest: Manifest, signature: Signature) -> str:
    """Name of the output: the one named in the metadata, the only float one, the only number, or one with a plain name.

    Raises InvalidInput, naming the choices, where that does not settle it.
    """
    names = [spec.name for spec in signature.outputs]
    named = manifest.metadata.get(METADATA)
    if named is not None:
        if named not in names:
            raise InvalidInput(f"{METADATA} of {manifest.id} is {named!r}, which is no output: use one of {names}")
        return named
    floats = [spec for spec in signature.outputs if spec.dtype.startswith("float")]
    numbers = [spec for spec in signature.outputs if spec.dtype != "string"]
    for choice in (floats, numbers):
        if len(choice) == 1:
            return choice[0].name
    likely = [name for name in _LIKELY if name in [spec.name for spec in floats or numbers]]
    if likely:
        return likely[0]
    raise InvalidInput(f"{manifest.id} has outputs {names}: say which is the prediction in metadata {METADATA!r}")


def as_scores(spec: TensorSpec, outputs: Mapping[str, Array]) -> npt.NDArray[np.float64]:
    """One number per example, shape [n]; of two class probabilities, the second. InvalidInput for other shapes."""
    array = outputs[spec.name].astype(np.float64)
    if array.ndim == 1:
        return array
    flat = array.reshape(len(array), -1)
    if flat.shape[1] in (1, 2):
        return np.asarray(flat[:, -1])
    raise InvalidInput(f"output {spec.name!r} has shape {list(array.shape)}: the quality gate needs one number a row")
