"""The requests of a warm-up file, TensorFlow Serving's `assets.extra/tf_serving_warmup_requests`, run one by one.

Versions of any platform may have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature
from tidegate_serving.platforms.example import default_array
from tidegate_serving.platforms.loader import LoadedVersion, RunsSessions
from tidegate_serving.platforms.platform import WarmUpOptions
from tidegate_serving.platforms.tensor_checks import check_inputs, with_second_axis
from tidegate_serving.platforms.warm_up.calls import Inputs, predict, signature_of, stretched
from tidegate_serving.platforms.warm_up.records import read_records
from tidegate_serving.platforms.warm_up.tf_examples import inputs_from_examples
from tidegate_serving.tensor_proto import to_array

MOST_RECORDS = 1000


def run_recorded(loaded: LoadedVersion, path: Path, options: WarmUpOptions) -> None:
    """Runs each as often as `options` say. Raises the model's error, saying which request it was."""
    for number, record in enumerate(read_records(path)):
        if number >= MOST_RECORDS:
            raise InvalidInput(f"Number of warmup records exceeds the maximum ({MOST_RECORDS}) at {path}")
        try:
            for run in _runs(loaded, record, options):
                for _ in range(options.iterations):
                    run()
        except TidegateError as error:
            raise type(error)(f"{loaded.manifest.id}: warm-up request {number} of {path} failed: {error}") from error


def _runs(loaded: LoadedVersion, record: bytes, options: WarmUpOptions) -> Iterator[Callable[[], None]]:
    """The calls that one record of the file stands for, one per batch size."""
    try:
        log = message("tensorflow.serving.PredictionLog").FromString(record)
    except DecodeError as error:
        raise InvalidInput(f"it is no PredictionLog: {error}") from error
    if log.WhichOneof("log_type") == "session_run_log":
        yield lambda: _run_session(loaded, log.session_run_log.request)
        return
    for name, sent in _requests(loaded.manifest, log):
        signature = signature_of(loaded.manifest, name)
        inputs = with_second_axis(signature, {**_defaults_of(signature), **sent})
        rows = check_inputs(signature, inputs)
        for size in (None,) if rows is None else options.sizes(rows):
            run = inputs if size is None else stretched(inputs, size)
            yield lambda name=name, run=run: predict(loaded, name, run)  # type: ignore[misc]


def _defaults_of(signature: Signature) -> Inputs:
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
    return name, inputs_from_examples(signature_of(manifest, name), data)


def _name(model_spec: Any) -> str:
    return str(model_spec.signature_name) or SERVING_DEFAULT


def _run_session(loaded: LoadedVersion, request: Any) -> None:
    if not isinstance(loaded.servable, RunsSessions):
        raise Unsupported(f"Unsupported log_type for warmup: session_run_log (platform {loaded.manifest.platform})")
    feeds = {named.name: to_array(named.tensor) for named in request.feed}
    loaded.servable.run_session(feeds, [*request.fetch], [*request.target])
