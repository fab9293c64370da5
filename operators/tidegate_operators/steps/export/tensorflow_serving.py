"""Writes an admitted SavedModel where a TensorFlow Serving looks for it, and names it in that server's list of models.

The server finds NAME/VERSION by itself where it watches the folder; labels need its `--model_config_file`.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from tidegate_operators.steps.export.admitted import AdmittedVersion
from tidegate_operators.steps.export.placing import Exported, place
from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.plain_file import read_small
from tidegate_serving.contract.servable import check_name
from tidegate_serving.files import hold, write_atomically
from tidegate_serving.tensorflow_serving.text_files import parse_text

PLATFORM = "tensorflow"


def export_tensorflow_serving(
    version: AdmittedVersion, repository: Path, *, config: Path | None = None, labels: Collection[str] = ()
) -> Exported:
    """Places the SavedModel as REPOSITORY/NAME/VERSION, its number intact. With `config`, a ModelServerConfig in text
    form, the model is listed there with this version beside those it has, and `labels` point to this version; the
    server reads it again where it runs with `--model_config_file_poll_wait_seconds`.

    A server takes a label only for a version that is loaded already, unless it runs with
    `--allow_version_labels_for_unavailable_models`. Unsupported for what is no SavedModel, AlreadyExists where other
    files have the number, InvalidInput for a config that is none.
    """
    manifest = version.manifest
    if manifest.platform != PLATFORM:
        raise Unsupported(
            f"{manifest.id} is of platform {manifest.platform!r}: TensorFlow Serving loads SavedModels alone"
        )
    if labels and config is None:
        raise InvalidInput("labels are written into a list of models: give its file as config")
    target = repository.absolute() / manifest.id.name / str(manifest.id.version)
    changed = place(version.directory, {entry.path: entry for entry in version.model_files}, target)
    if config is not None:
        changed = _list(config, manifest.id.name, target, {check_name(label) for label in labels}) or changed
    return Exported(manifest.id, target, config, changed)


def _list(config: Path, name: str, target: Path, labels: Collection[str]) -> bool:
    """Names the version in the config; whether that changed it."""
    config.parent.mkdir(parents=True, exist_ok=True)
    with hold(config.with_name(f".{config.name}.lock")):
        before = read_small(config).decode() if config.is_file() else ""
        models = parse_text(before, "tensorflow.serving.ModelServerConfig", str(config))
        model = _model(models, name)
        model.base_path, model.model_platform = str(target.parent), PLATFORM
        number = int(target.name)
        numbers = model.model_version_policy.specific.versions
        if number not in numbers:
            numbers.append(number)
        for label in labels:
            model.version_labels[label] = number
        after = text_format.MessageToString(models)
        if after == before:
            return False
        write_atomically(config, after)
    return True


def _model(models: Any, name: str) -> Any:
    listed = models.model_config_list.config
    found = next((one for one in listed if one.name == name), None)
    return found if found is not None else listed.add(name=name)
