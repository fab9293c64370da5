"""MLflow models: through the native platform of their flavour where there is one, else through pyfunc.

sklearn, xgboost, lightgbm, onnx, tensorflow and pytorch models answer natively what MLflow's `predict` would. Pyfunc
serves scikit-learn's wrappers of boosters, which answer with labels, Keras files, and pickles with modules of their
own. It runs code that the model brings along, so it needs the same permission as pickle. Metadata: `mlflow.flavour`
(default: the best; `python_function` for pyfunc), and the native platform's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.manifest import FileEntry, Manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.mlflow.mlmodel import OUTPUT, MlModel, read_mlmodel
from tidegate_serving.platforms.platform import ModelDescription, PlatformOptions
from tidegate_serving.platforms.registry import built_in_platform
from tidegate_serving.platforms.sklearn.estimators import MISSING

PYFUNC = "python_function"
_BOOSTERS = ("xgboost.core.Booster", "xgboost.sklearn.XGBRegressor", "lightgbm.basic.Booster")
# By flavour: the platform, and the flavour's key for the model's file.
_NATIVE = {
    "sklearn": ("sklearn", "pickled_model"),
    "xgboost": ("xgboost", "data"),
    "lightgbm": ("lightgbm", "data"),
    "onnx": ("onnx", "data"),
    "tensorflow": ("tensorflow", "saved_model_dir"),
    "pytorch": ("torch", "model_data"),
}
_PICKLES = (".pkl", ".pickle", ".joblib")
_TELLS_ITSELF = ("onnx", "tensorflow", "torch")


@dataclass(frozen=True, slots=True)
class _Route:
    """Which platform loads the model, from which directory, with which manifest."""

    name: str
    platform: Any
    directory: Path
    manifest: Manifest


class MlflowPlatform:
    """Hands an MLflow model on to whoever serves it best."""

    def __init__(self, options: PlatformOptions) -> None:
        self._options = options

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """The model's own signature, else what its native platform can tell; its input example as the example row."""
        model = read_mlmodel(directory, manifest)
        route = self._route(model, directory, manifest)
        if route is None:
            return ModelDescription({SERVING_DEFAULT: model.signature()}, example=model.example())
        if route.name in _TELLS_ITSELF or not model.has_signature:
            found: ModelDescription = route.platform.discover(route.directory, route.manifest)
            return replace(found, example={**found.example, **_fitting(model.example(), found)})
        return ModelDescription({SERVING_DEFAULT: _predicting(model.signature())}, example=model.example())

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """The native platform's servable, or one that calls pyfunc."""
        model = read_mlmodel(directory, manifest)
        route = self._route(model, directory, manifest)
        if route is not None:
            loaded: Servable = route.platform.load(route.directory, route.manifest)
            return loaded
        from tidegate_serving.platforms.mlflow.pyfunc import load_pyfunc

        return load_pyfunc(model, manifest, allowed=self._options.allow_pickle)

    def _route(self, model: MlModel, directory: Path, manifest: Manifest) -> _Route | None:
        """None for pyfunc."""
        chosen = manifest.metadata.get("mlflow.flavour")
        if chosen is not None and chosen not in model.flavours:
            raise InvalidInput(f"{manifest.id} has no flavour {chosen!r}: it has {', '.join(model.flavours)}")
        for flavour in _NATIVE if chosen is None else [chosen]:
            file = _native_file(model, flavour)
            if file is not None:
                return self._native(model, flavour, file, (directory, manifest))
        return None

    def _native(self, model: MlModel, flavour: str, file: Path, version: tuple[Path, Manifest]) -> _Route:
        directory, manifest = version
        name, _ = _NATIVE[flavour]
        platform = built_in_platform(name, self._options)
        if file.is_dir():
            return _Route(name, platform, file, replace(manifest, files=_below(manifest, file.relative_to(directory))))
        told = {f"{name}.file": file.relative_to(directory).as_posix(), **_method(model, flavour)}
        if flavour == "sklearn":
            told[MISSING] = json.dumps(model.optional_texts)
        return _Route(name, platform, directory, replace(manifest, metadata={**told, **manifest.metadata}))


def _method(model: MlModel, flavour: str) -> dict[str, str]:
    """scikit-learn models may be logged with another method than `predict`."""
    method = model.flavours.get(PYFUNC, {}).get("predict_fn", OUTPUT)
    return {"sklearn.outputs": json.dumps({OUTPUT: method})} if flavour == "sklearn" and method != OUTPUT else {}


def _native_file(model: MlModel, flavour: str) -> Path | None:
    """The file or folder that the flavour's native platform loads; None where it has to be pyfunc."""
    settings = model.flavours.get(flavour)
    if settings is None or flavour not in _NATIVE:
        return None
    if flavour in ("xgboost", "lightgbm") and settings.get("model_class") not in _BOOSTERS:
        return None
    told = settings.get(_NATIVE[flavour][1])
    if told is None:
        return None
    path = model.inside(told)
    if flavour == "pytorch":
        found = [path / name for name in ("model.pt2", "model.pth") if (path / name).is_file()]
        return found[0] if found else None
    if model.code is not None and path.suffix in _PICKLES:
        return None
    return path if path.exists() else None


def _below(manifest: Manifest, folder: Path) -> tuple[FileEntry, ...]:
    start = f"{folder.as_posix()}/"
    return tuple(
        replace(entry, path=entry.path.removeprefix(start)) for entry in manifest.files if entry.path.startswith(start)
    )


def _predicting(signature: Signature) -> Signature:
    """MLflow's inputs, and what a native `predict` gives: one output of that name, MLflow's columns side by side."""
    outputs = signature.outputs
    kinds = {spec.dtype for spec in outputs}
    if "string" in kinds and len(kinds) > 1:
        names = ", ".join(spec.name for spec in outputs)
        raise Unsupported(
            f"outputs {names} are texts and numbers, which no array of `predict` holds: make them of one kind"
        )
    dtype = kinds.pop() if len(kinds) == 1 else np.result_type(*kinds).name
    shape = outputs[0].shape if len(outputs) == 1 else (-1, len(outputs))
    return Signature(signature.inputs, (TensorSpec(OUTPUT, dtype, shape),))


def _fitting(example: Mapping[str, Any], found: ModelDescription) -> dict[str, Any]:
    """The example where its names are the inputs'; a lone value takes the name of the lone input."""
    names = found.signatures[next(iter(found.signatures))].input_names
    if len(example) == 1 and len(names) == 1:
        return {names[0]: next(iter(example.values()))}
    return dict(example) if set(example) == set(names) else {}
