"""Writes an admitted SavedModel where a TensorFlow Serving looks for it, and names it in that server's list of models.

The server finds NAME/VERSION by itself where it watches the folder; labels need its `--model_config_file`.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from tidegate_operators.steps.export.admitted import AdmittedVersion
from tidegate_operators.steps.export.placing import Exported, place
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, Unsupported
from tidegate_serving.contract.plain_file import read_small
from tidegate_serving.contract.servable import check_name
from tidegate_serving.files import hold, write_atomically
from tidegate_serving.tensorflow_serving.text_files import parse_text

PLATFORM = "tensorflow"
_SPECIFIC, _LATEST = "specific", "latest"


def export_tensorflow_serving(
    version: AdmittedVersion, repository: Path, *, config: Path | None = None, labels: Collection[str] = ()
) -> Exported:
    """Places the SavedModel as REPOSITORY/NAME/VERSION, its number intact. With `config`, a ModelServerConfig in text
    form, the model is listed there with this version beside those it has, and `labels` point to this version; the
    server reads it again where it runs with `--model_config_file_poll_wait_seconds`. A list that says to serve all or
    the latest versions goes on saying so.

    A server takes a label only for a version that is loaded already, unless it runs with
    `--allow_version_labels_for_unavailable_models`. Unsupported for what is no SavedModel, AlreadyExists where other
    files have the number, InvalidInput for a config that is none, FailedPrecondition for one that lists the model
    elsewhere, or as the latest versions where this one is older than these. Nothing is written then.
    """
    manifest = version.manifest
    if manifest.platform != PLATFORM:
        raise Unsupported(
            f"{manifest.id} is of platform {manifest.platform!r}: TensorFlow Serving loads SavedModels alone"
        )
    if labels and config is None:
        raise InvalidInput("labels are written into a list of models: give its file as config")
    target = repository.absolute() / manifest.id.name / str(manifest.id.version)
    if config is not None:
        _read(config, manifest.id.name, target)
    changed = place(version.directory, {entry.path: entry for entry in version.model_files}, target)
    if config is not None:
        changed = _list(config, manifest.id.name, target, {check_name(label) for label in labels}) or changed
    return Exported(manifest.id, target, config, changed)


def _list(config: Path, name: str, target: Path, labels: Collection[str]) -> bool:
    """Names the version in the config; whether that changed it. A link to it stays one, and all wait for one lock."""
    config = Path(os.path.realpath(config))
    config.parent.mkdir(parents=True, exist_ok=True)
    with hold(config.with_name(f".{config.name}.lock")):
        before, models, model = _read(config, name, target)
        number = int(target.name)
        if not model.base_path:
            model.base_path, model.model_platform = str(target.parent), PLATFORM
            model.model_version_policy.specific.versions.append(number)
        elif _policy(model) == _SPECIFIC and number not in model.model_version_policy.specific.versions:
            model.model_version_policy.specific.versions.append(number)
        for label in labels:
            model.version_labels[label] = number
        after = text_format.MessageToString(models)
        if after == before:
            return False
        write_atomically(config, after)
    return True


def _read(config: Path, name: str, target: Path) -> tuple[str, Any, Any]:
    """The text of the config, what it says, and what of that is this model's, an entry without a `base_path` where it
    was not listed. FailedPrecondition where the version would not serve by it."""
    before = read_small(config).decode() if config.is_file() else ""
    models = parse_text(before, "tensorflow.serving.ModelServerConfig", str(config))
    listed = models.model_config_list.config
    model = next((one for one in listed if one.name == name), None)
    if model is None:
        return before, models, listed.add(name=name)
    if model.base_path.rstrip("/") != str(target.parent):
        raise FailedPrecondition(
            f"{config} has {name!r} at {model.base_path!r}, and this would go to {target.parent}: name the repository "
            "by the path that the server has for it, or leave the config out and list the version by hand"
        )
    if _policy(model) == _LATEST:
        count = max(model.model_version_policy.latest.num_versions, 1)
        newest = sorted({int(target.name), *_numbers_in(target.parent)})[-count:]
        if int(target.name) not in newest:
            raise FailedPrecondition(
                f"{config} has the latest {count} of {name!r} served, and version {target.name} is older than these: "
                "list the versions that are to serve as model_version_policy { specific { versions: N } }"
            )
    return before, models, model


def _policy(model: Any) -> str:
    """Which versions are served: without a word the latest."""
    return model.model_version_policy.WhichOneof("policy_choice") or _LATEST


def _numbers_in(folder: Path) -> list[int]:
    """The versions that the server finds there."""
    return [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
