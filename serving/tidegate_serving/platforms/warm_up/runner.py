"""Warms a version up: runs the manifest's example, and the requests that its warm-up file holds.

It runs between loading and AVAILABLE, and a request that the model cannot answer fails the load. Protobuf is imported
for versions that have such a file alone.
"""

from __future__ import annotations

import logging
from pathlib import Path

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import FirstAxis, Signature, default_name
from tidegate_serving.platforms.example import example_inputs
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.platforms.platform import WarmUpOptions
from tidegate_serving.platforms.warm_up.calls import Inputs, predict, stretched

FILE = "assets.extra/tf_serving_warmup_requests"
_log = logging.getLogger(__name__)


def warm_up(loaded: LoadedVersion, directory: Path, options: WarmUpOptions) -> None:
    """Runs everything. Raises the model's error for the request that it cannot answer, saying which one it was."""
    _run_example(loaded, options)
    path = directory / FILE
    if options.enabled and path.is_file():
        from tidegate_serving.platforms.warm_up.recorded import run_recorded

        run_recorded(loaded, path, options)


def _run_example(loaded: LoadedVersion, options: WarmUpOptions) -> None:
    manifest = loaded.manifest
    found = {name: _example(manifest, name, signature) for name, signature in manifest.signatures.items()}
    cold = [name for name, inputs in found.items() if inputs is None]
    if cold:
        _log.info("%s has no example for %s: not warmed up by one", manifest.id, ", ".join(cold))
    for name, inputs in found.items():
        if inputs is None:
            continue
        try:
            free = manifest.signatures[name].first_axis is FirstAxis.FREE
            for size in (1,) if free else options.sizes(1):
                predict(loaded, name, inputs if free else stretched(inputs, size))
        except TidegateError as error:
            raise type(error)(f"{manifest.id} cannot answer its own example: {error}") from error


def _example(manifest: Manifest, name: str, signature: Signature) -> Inputs | None:
    """The example as a signature's inputs. It is the default signature's: another that it does not fit has none."""
    try:
        return example_inputs(signature, manifest.example)
    except InvalidInput:
        if name == default_name(manifest.signatures):
            raise
        return None
