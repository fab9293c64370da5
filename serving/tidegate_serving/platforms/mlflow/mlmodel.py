"""MLflow's `MLmodel` file: which flavours a model directory has, its signature and its input example.

MLflow itself is not needed to read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, NotFound, Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.platforms.platform import library

FILE = "MLmodel"
INPUT, OUTPUT = "inputs", "predict"
_COLUMN_TYPES = {
    "boolean": "bool",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "binary": "string",
}


@dataclass(frozen=True, slots=True)
class MlModel:
    """An MLflow model: the folder that holds its `MLmodel`, and what that says."""

    root: Path
    document: Mapping[str, Any]

    @property
    def flavours(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings by flavour."""
        found: Mapping[str, Mapping[str, Any]] = self.document.get("flavors") or {}
        return found

    @property
    def code(self) -> Path | None:
        """The folder of modules that the model brings along; None where it brings none."""
        told = (self.flavours.get("python_function") or {}).get("code")
        return folder if told and (folder := self.inside(told)).is_dir() else None

    def inside(self, told: object) -> Path:
        """The path of what it names. InvalidInput where that lies outside its folder: no manifest lists it there."""
        path = self.root / str(told)
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise InvalidInput(
                f"{self.root / FILE} names {told!r}, which lies outside its own folder: log the model again"
            )
        return path

    @property
    def has_signature(self) -> bool:
        """Whether MLflow was told a signature with inputs and outputs."""
        told = self.document.get("signature") or {}
        return bool(told.get("inputs") and told.get("outputs"))

    @property
    def takes_columns(self) -> bool:
        """Whether the model takes a table, rather than tensors."""
        return any(entry["type"] != "tensor" for entry in _entries(self.document, "inputs"))

    @property
    def is_named(self) -> bool:
        """Whether its inputs have names."""
        return any("name" in entry for entry in _entries(self.document, "inputs"))

    @property
    def optional_texts(self) -> list[str]:
        """Columns of text that may be missing; MLflow finds them where values are, in the data that it infers from."""
        columns = [entry for entry in _entries(self.document, "inputs") if not entry.get("required", True)]
        return [str(entry["name"]) for entry in columns if "name" in entry and entry["type"] == "string"]

    @property
    def binary_columns(self) -> list[str]:
        """Columns whose values are bytes that need not be text."""
        entries = _entries(self.document, "inputs")
        return [str(entry.get("name", INPUT)) for entry in entries if entry["type"] == "binary"]

    def signature(self) -> Signature:
        """As the contract has it; a lone input or output without a name is `inputs` or `predict`.

        Unsupported where the model has none, or one of types that cannot be served.
        """
        if not self.has_signature:
            raise Unsupported(f"{self.root / FILE} has no signature: log the model with one, or write one as JSON")
        return Signature(
            tuple(_spec(entry, INPUT) for entry in _entries(self.document, "inputs")),
            tuple(_spec(entry, OUTPUT) for entry in _entries(self.document, "outputs")),
        )

    def example(self) -> dict[str, Any]:
        """The first row of the input example by input name; nothing where there is none that fits."""
        info = self.document.get("saved_input_example_info") or {}
        if info.get("type") not in ("dataframe", "ndarray") or not self.has_signature:
            return {}
        path = self.inside(info.get("artifact_path"))
        if not path.is_file():
            return {}
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"the input example {path} is no JSON: {error}") from error
        return _first_row(data, self.signature())


def read_mlmodel(directory: Path, manifest: Manifest) -> MlModel:
    """The only MLflow model among a version's files. NotFound without one, InvalidInput where it cannot be read."""
    found = [entry.path for entry in manifest.files if PurePosixPath(entry.path).name == FILE]
    if len(found) != 1:
        raise NotFound(f"{manifest.id} lists {len(found)} files named {FILE}: it needs one MLflow model")
    with library("MLflow", "mlflow"):
        import yaml
    path = directory / found[0]
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not YAML: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("flavors"), dict):
        raise InvalidInput(f"{path} names no flavours: log the model again")
    return MlModel(path.parent, document)


def _entries(document: Mapping[str, Any], side: str) -> Sequence[Mapping[str, Any]]:
    text = (document.get("signature") or {}).get(side) or "[]"
    try:
        found: Sequence[Mapping[str, Any]] = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"the signature's {side} of an {FILE} are no JSON: {error}") from error
    return found


def _spec(entry: Mapping[str, Any], default: str) -> TensorSpec:
    name = str(entry.get("name", default))
    if entry["type"] == "tensor":
        told = entry["tensor-spec"]
        dtype = "string" if str(told["dtype"]) in ("str", "object", "bytes") else str(told["dtype"])
        return TensorSpec(name, dtype, tuple(int(size) for size in told["shape"]))
    if entry["type"] not in _COLUMN_TYPES:
        raise Unsupported(
            f"column {name!r} of an MLflow signature is {entry['type']!r}, which cannot be served: make it "
            "a number or a string"
        )
    return TensorSpec(name, _COLUMN_TYPES[entry["type"]])


def _first_row(data: Any, signature: Signature) -> dict[str, Any]:
    names = signature.input_names
    if isinstance(data, dict) and "columns" in data and data.get("data"):
        row = dict(zip(data["columns"], data["data"][0], strict=True))
        return {name: row[name] for name in names if name in row}
    held = data.get("inputs", data) if isinstance(data, dict) else data
    if isinstance(held, dict):
        return {name: held[name][0] for name in names if held.get(name)}
    return {names[0]: held[0]} if isinstance(held, list) and held and len(names) == 1 else {}
