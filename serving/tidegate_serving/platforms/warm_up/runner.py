"""Warms a version up: runs the manifest's example, and the requests that its warm-up file holds.

It runs between loading and AVAILABLE, and a request that the model cannot answer fails the load. The file is TensorFlow
Serving's `assets.extra/tf_serving_warmup_requests`, for versions of any platform.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, default_name
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.example import default_array, example_inputs
from tidegate_serving.platforms.loader import LoadedVersion, RunsSessions, ask
from tidegate_serving.platforms.platform import WarmUpOptions
from tidegate_serving.platforms.tensor_checks import check_inputs, check_outputs, with_second_axis
from tidegate_serving.platforms.warm_up.records import read_records
from tidegate_serving.platforms.warm_up.tf_examples import inputs_from_examples
from tidegate_serving.tensor_proto import to_array

FILE = "assets.extra/tf_serving_warmup_requests"
MOST_RECORDS = 1000
Inputs = Mapping[str, Array]
_log = logging.getLogger(__name__)


def warm_up(loaded: LoadedVersion, directory: Path, options: WarmUpOptions) -> None:
    """Runs everything. Raises the model's error for the request that it cannot answer, saying which one it was."""
    _run_example(loaded, options)
    path = directory / FILE
    if not options.enabled or not path.is_file():
        return
    for number, record in enumerate(read_records(path)):
        if number >= MOST_RECORDS:
            raise InvalidInput(f"Number of warmup records exceeds the maximum ({MOST_RECORDS}) at {path}")
        try:
            for run in _runs(loaded, record, options):
                for _ in range(options.iterations):
                    run()
        except TidegateError as error:
            raise type(error)(f"{loaded.manifest.id}: warm-up request {number} of {path} failed: {error}") from error


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
                _predict(loaded, name, inputs if free else _stretched(inputs, size))
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


def _runs(loaded: LoadedVersion, record: bytes, options: WarmUpOptions) -> Iterator[Callable[[], None]]:
    """The calls that one record of the file stands for, one per batch size."""
    from google.protobuf.message import DecodeError

    try:
        log = message("tensorflow.serving.PredictionLog").FromString(record)
    except DecodeError as error:
        raise InvalidInput(f"it is no PredictionLog: {error}") from error
    if log.WhichOneof("log_type") == "session_run_log":
        yield lambda: _run_session(loaded, log.session_run_log.request)
        return
    for name, sent in _requests(loaded.manifest, log):
        signature = _signature(loaded.manifest, name)
        inputs = with_second_axis(signature, {**defaults_of(signature), **sent})
        rows = check_inputs(signature, inputs)
        for size in (None,) if rows is None else options.sizes(rows):
            stretched = inputs if size is None else _stretched(inputs, size)
            yield lambda name=name, stretched=stretched: _predict(loaded, name, stretched)  # type: ignore[misc]


def defaults_of(signature: Signature) -> Inputs:
    """What stands in for inputs that a request leaves out."""
    return {name: default_array(signature, name) for name in signature.defaults}


def _requests(manifest: Manifest, log: Any) -> Iterator[tuple[str, Inputs]]:
    """Signature and inputs of what a log holds; a multi-inference log holds several."""
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        yield _name(request.model_spec), {name: to_array(tensor) for name, tensor in request.inputs.items()}
    elif kind in ("classify_log", "regress_log"):
        request = getattr(log, kind).request
        yield _from_examples(manifest, _name(request.model_spec), request.input)
    elif kind == "multi_inference_log":
        request = log.multi_inference_log.request
        for task in request.tasks:
            yield _from_examples(manifest, _name(task.model_spec), request.input)
    else:
        raise Unsupported(f"Unsupported log_type for warmup: {kind}")


def _from_examples(manifest: Manifest, name: str, data: Any) -> tuple[str, Inputs]:
    return name, inputs_from_examples(_signature(manifest, name), data)


def _name(model_spec: Any) -> str:
    return str(model_spec.signature_name) or SERVING_DEFAULT


def _signature(manifest: Manifest, name: str) -> Signature:
    if name not in manifest.signatures:
        raise InvalidInput(f'Serving signature name: "{name}" not found in signature def')
    return manifest.signatures[name]


def _predict(loaded: LoadedVersion, name: str, inputs: Inputs) -> None:
    signature = _signature(loaded.manifest, name)
    rows = check_inputs(signature, inputs)
    answer = ask(loaded.servable, name, inputs)
    for wrong in answer.errors.values():
        raise wrong
    check_outputs(loaded.manifest.id, signature, rows, answer.outputs)


def _run_session(loaded: LoadedVersion, request: Any) -> None:
    if not isinstance(loaded.servable, RunsSessions):
        raise Unsupported(f"Unsupported log_type for warmup: session_run_log (platform {loaded.manifest.platform})")
    feeds = {named.name: to_array(named.tensor) for named in request.feed}
    loaded.servable.run_session(feeds, [*request.fetch], [*request.target])


def _stretched(inputs: Inputs, rows: int) -> Inputs:
    """The same rows over and over, until there are `rows`."""
    return {name: np.resize(array, (rows, *array.shape[1:])) for name, array in inputs.items()}
