"""Writes an admitted version into a Triton model repository: NAME/VERSION with the files, and config.pbtxt beside.

The config says what a SavedModel's signature says, or what an ONNX graph itself declares, since Triton runs that as it
is. Axes of any size stay so; where each tensor has a batch before further axes Triton may batch, else each request runs
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate_operators.steps.export.admitted import AdmittedVersion
from tidegate_operators.steps.export.placing import Exported, place
from tidegate_serving.contract.errors import FailedPrecondition, Unsupported
from tidegate_serving.contract.manifest import FileEntry
from tidegate_serving.contract.plain_file import read_small
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.files import write_atomically
from tidegate_serving.platforms.onnx.signature import declared_signature

CONFIG = "config.pbtxt"
DEFAULT_BATCH = 64
_BACKENDS = {"onnx": "onnxruntime_onnx", "tensorflow": "tensorflow_savedmodel"}
_TYPES = {
    "bool": "BOOL",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "string": "STRING",
    **{f"{sign}int{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def export_triton(
    version: AdmittedVersion, repository: Path, *, max_batch_size: int = DEFAULT_BATCH, keep_config: bool = False
) -> Exported:
    """Places the version as REPOSITORY/NAME/VERSION and writes REPOSITORY/NAME/config.pbtxt, which all versions of a
    model share in Triton; with `keep_config` one that is there stays, whatever it says.

    Unsupported for what Triton cannot load, with its reason; FailedPrecondition where a config is there that says
    something else, AlreadyExists where other files have the number.
    """
    manifest = version.manifest
    files, text = _layout(version), _config(version, max_batch_size)
    config = repository.absolute() / manifest.id.name / CONFIG
    there = read_small(config).decode() if config.is_file() else None
    if there not in (None, text) and not keep_config:
        raise FailedPrecondition(
            f"{config} says something else than the signature of {manifest.id}, and all versions share it: export "
            "under another name, or keep it with keep_config where it fits"
        )
    changed = place(version.directory, files, config.parent / str(manifest.id.version))
    if there is None:
        write_atomically(config, text)
    return Exported(manifest.id, config.parent / str(manifest.id.version), config, changed or there is None)


def _layout(version: AdmittedVersion) -> dict[str, FileEntry]:
    """The files by where Triton looks for them in a version's folder."""
    identity, platform = version.manifest.id, version.manifest.platform
    if platform not in _BACKENDS:
        raise Unsupported(
            f"{identity} is of platform {platform!r}: Triton gets {' and '.join(sorted(_BACKENDS))} models"
        )
    if identity.version == 0:
        raise Unsupported(f"{identity} has number 0, which Triton takes for no version: publish it under another")
    if platform == "tensorflow":
        return {f"model.savedmodel/{entry.path}": entry for entry in version.model_files}
    graph = _graph(version)
    return {"model.onnx" if entry.path == graph else entry.path: entry for entry in version.model_files}


def _graph(version: AdmittedVersion) -> str:
    found = [entry.path for entry in version.model_files if entry.path.endswith(".onnx")]
    if len(found) != 1:
        raise Unsupported(
            f"{version.manifest.id} has {len(found)} files that end with .onnx, Triton takes one: publish one"
        )
    return found[0]


def _config(version: AdmittedVersion, max_batch_size: int) -> str:
    manifest, signature = version.manifest, version.signature
    may_batch = max_batch_size > 0 and signature.first_axis is FirstAxis.BATCH
    if manifest.platform == "onnx":
        signature = declared_signature(version.directory / _graph(version))
    batched = may_batch and _has_batch(signature)
    lines = [
        f'name: "{manifest.id.name}"',
        f'platform: "{_BACKENDS[manifest.platform]}"',
        f"max_batch_size: {max_batch_size if batched else 0}",
        *_tensors("input", signature.inputs, batched),
        *_tensors("output", signature.outputs, batched),
        *(["dynamic_batching { }"] if batched else []),
    ]
    return "\n".join(lines) + "\n"


def _has_batch(signature: Signature) -> bool:
    """Whether Triton can put requests together: it wants a first axis of any size, and one more, in every tensor."""
    return all(spec.shape[:1] == (-1,) and len(spec.shape) > 1 for spec in (*signature.inputs, *signature.outputs))


def _tensors(what: str, specs: Sequence[TensorSpec], batched: bool) -> list[str]:
    lines = []
    for spec in specs:
        shape = spec.shape[1:] if batched else spec.shape
        if spec.unknown_rank or not shape:
            raise Unsupported(
                f"{what} {spec.name!r} has no axis that is known, which a Triton config cannot say: give it a shape"
            )
        if any(character in spec.name for character in '"\\\n'):
            raise Unsupported(f"{what} {spec.name!r} has a quote or a backslash in its name: rename it")
        if spec.dtype not in _TYPES:
            raise Unsupported(f"{what} {spec.name!r} is {spec.dtype}, which Triton has no type for: leave it out")
        dims = ", ".join(map(str, shape))
        lines += [f'{what} {{ name: "{spec.name}" data_type: TYPE_{_TYPES[spec.dtype]} dims: [ {dims} ] }}']
    return lines
