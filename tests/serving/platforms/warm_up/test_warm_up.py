"""Versions are warm before they serve: a warm-up file's requests reach the model, and one that fails fails the load."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.models.versions import Draft, flip, publish, write_manifest

from tidegate_serving.config import BatchingConfig
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, ModelFailed, TidegateError, Unsupported
from tidegate_serving.contract.manifest import Manifest, describe_files, read_manifest
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import PREDICT, SERVING_DEFAULT, FirstAxis, Signature, TensorSpec
from tidegate_serving.platforms.loader import LoadedVersion
from tidegate_serving.platforms.platform import PlatformOptions, WarmUpOptions
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.version_loader import VersionLoader
from tidegate_serving.platforms.warm_up.records import write_records
from tidegate_serving.platforms.warm_up.runner import FILE, warm_up
from tidegate_serving.tensor_proto import fill

RECORDER = """
import json, pathlib
import numpy as np

class Model:
    def __init__(self, directory):
        self.seen = directory.parent.parent / "seen.jsonl"
    def predict(self, inputs):
        plain = {"x": inputs["x"].tolist(), "word": [word.decode() for word in inputs["word"]]}
        with self.seen.open("a") as file:
            file.write(json.dumps(plain) + "\\n")
        if (inputs["x"] < 0).any():
            raise ValueError("x is negative")
        return {"y": inputs["x"]}
"""
PARSER = """
import numpy as np

class Model:
    def __init__(self, directory):
        self.seen = directory.parent.parent / "seen.jsonl"
    def predict(self, inputs):
        (column,) = inputs.values()
        with self.seen.open("a") as file:
            file.writelines(one.hex() + "\\n" for one in column)
        return {"y": np.ones(len(column), np.float32)}
"""
NAMED = Signature((TensorSpec("x", "float32"), TensorSpec("word", "string")), (TensorSpec("y", "float32"),))


def predict_log(*x: float, signature: str = "", words: Sequence[str] = ()) -> bytes:
    log = message("tensorflow.serving.PredictionLog")()
    request = log.predict_log.request
    request.model_spec.name, request.model_spec.signature_name = "whatever", signature
    fill(request.inputs["x"], np.array(x, "f4"))
    fill(request.inputs["word"], np.array(list(words) or ["w"] * len(x), dtype=object))
    return bytes(log.SerializeToString())


def feature_log(kind: str, *x: float) -> bytes:
    log = message("tensorflow.serving.PredictionLog")()
    data = getattr(log, kind).request.input
    data.example_list.SetInParent()
    if kind == "multi_inference_log":
        log.multi_inference_log.request.tasks.add().model_spec.signature_name = SERVING_DEFAULT
        data.example_list_with_context.context.features.feature["word"].bytes_list.value.append(b"context")
    examples = (data.example_list_with_context if kind == "multi_inference_log" else data.example_list).examples
    for value in x:
        feature = examples.add().features.feature
        feature["x"].float_list.value.append(value)
        if kind != "multi_inference_log":
            feature["word"].bytes_list.value.append(f"w{value}".encode())
    return bytes(log.SerializeToString())


def session_log() -> bytes:
    log = message("tensorflow.serving.PredictionLog")()
    log.session_run_log.request.fetch.append("y:0")
    return bytes(log.SerializeToString())


def version(root: Path, records: Sequence[bytes], example: dict[str, Any] | None = None) -> Path:
    draft = Draft(files={"model.py": RECORDER}, signature=NAMED, example=example or {})
    directory = publish(root, "m", 1, draft)
    if records:
        write_records(directory / FILE, records)
        refresh(directory)
    return directory


def refresh(directory: Path) -> None:
    """The manifest lists the files as they are now."""
    write_manifest(replace(read_manifest(directory)[0], files=describe_files(directory)), directory)


def load(directory: Path, options: WarmUpOptions | None = None, size_for: Callable[[int], int] | None = None) -> None:
    def admit(manifest: Manifest, digest: str) -> None:
        """Everybody."""

    _, digest = read_manifest(directory)
    path = VersionReference(1, directory, digest, "python")
    registry = installed_platforms(PlatformOptions(warm_up=options or WarmUpOptions()))
    VersionLoader(ServableId("m", 1), path, registry, admit, size_for).load()


def seen(directory: Path) -> list[str]:
    path = directory.parent.parent / "seen.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def test_predict_requests_reach_the_model_in_order(tmp_path: Path) -> None:
    directory = version(tmp_path, [predict_log(1, 2), predict_log(3, words=["é"])])
    load(directory)
    assert seen(directory) == ['{"x": [1.0, 2.0], "word": ["w", "w"]}', '{"x": [3.0], "word": ["\\u00e9"]}']


def test_a_request_without_the_axis_of_one_element_reaches_the_model_with_it(tmp_path: Path) -> None:
    directory = version(tmp_path, [predict_log(1, 2)])
    x, word = NAMED.inputs
    upright = Signature((replace(x, shape=(-1, 1)), word), (TensorSpec("y", "float32", (-1, 1)),))
    write_manifest(replace(read_manifest(directory)[0], signatures={SERVING_DEFAULT: upright}), directory)
    load(directory)
    assert seen(directory) == ['{"x": [[1.0], [2.0]], "word": ["w", "w"]}']


@pytest.mark.parametrize("kind", ["classify_log", "regress_log"])
def test_examples_become_named_columns(tmp_path: Path, kind: str) -> None:
    directory = version(tmp_path, [feature_log(kind, 1, 2)])
    load(directory)
    assert seen(directory) == ['{"x": [1.0, 2.0], "word": ["w1", "w2"]}']


@pytest.mark.parametrize("kind", ["classify_log", "regress_log", "multi_inference_log"])
@pytest.mark.parametrize(
    ("spec", "method"),
    [
        (TensorSpec("inputs", "string"), PREDICT),
        (TensorSpec("inputs", "string", (), unknown_rank=True), "tensorflow/serving/regress"),
        (TensorSpec("serialised", "string"), "tensorflow/serving/classify"),
    ],
)
def test_a_model_that_parses_examples_gets_them_whole(tmp_path: Path, kind: str, spec: TensorSpec, method: str) -> None:
    axis = FirstAxis.ASSUMED if spec.unknown_rank else FirstAxis.BATCH
    signature = Signature((spec,), (TensorSpec("y", "float32"),), method, axis)
    draft = Draft(files={"model.py": PARSER}, signature=signature)
    directory = publish(tmp_path, "m", 1, draft)
    write_records(directory / FILE, [feature_log(kind, 1, 2)])
    refresh(directory)
    load(directory)
    features = [
        message("tensorflow.Example").FromString(bytes.fromhex(line)).features.feature for line in seen(directory)
    ]
    assert [list(one["x"].float_list.value) for one in features] == [[1.0], [2.0]]


def test_a_string_of_another_name_is_a_feature(tmp_path: Path) -> None:
    signature = Signature((TensorSpec("word", "string"),), (TensorSpec("y", "float32"),))
    directory = publish(tmp_path, "m", 1, Draft(files={"model.py": PARSER}, signature=signature))
    write_records(directory / FILE, [feature_log("regress_log", 1, 2)])
    refresh(directory)
    load(directory)
    assert [bytes.fromhex(line) for line in seen(directory)] == [b"w1", b"w2"]


def test_a_context_stands_in_for_what_examples_lack(tmp_path: Path) -> None:
    directory = version(tmp_path, [feature_log("multi_inference_log", 1, 2)])
    load(directory)
    assert seen(directory) == ['{"x": [1.0, 2.0], "word": ["context", "context"]}']


def test_requests_are_repeated_and_stretched_as_told(tmp_path: Path) -> None:
    directory = version(tmp_path, [predict_log(1, 2, words=["a", "b"])], {"x": 7.0, "word": "w"})
    load(directory, WarmUpOptions(iterations=2, batch_sizes=(1, 2, 5)))
    runs = [line.partition("]")[0] for line in seen(directory)]
    example = ['{"x": [7.0', '{"x": [7.0, 7.0', '{"x": [7.0, 7.0, 7.0, 7.0, 7.0']
    assert [run for run in runs if "7.0" in run] == example
    pairs = ['{"x": [1.0, 2.0', '{"x": [1.0', '{"x": [1.0, 2.0, 1.0, 2.0, 1.0']
    assert [run for run in runs if "7.0" not in run] == [run for run in pairs for _ in range(2)]


def test_only_sizes_that_the_model_is_asked_for_are_warmed(tmp_path: Path) -> None:
    directory = version(tmp_path, [predict_log(1, 2, words=["a", "b"])], {"x": 7.0, "word": "w"})
    load(directory, WarmUpOptions(batch_sizes=(2, 3, 5)), BatchingConfig(4, allowed_batch_sizes=(2, 4)).size_for)
    rows = [len(json.loads(line)["x"]) for line in seen(directory)]
    assert rows == [2, 4, 2, 4], "of the example, then of the request"


def test_the_file_can_be_left_alone(tmp_path: Path) -> None:
    directory = version(tmp_path, [b"nonsense"])
    load(directory, WarmUpOptions(enabled=False))
    assert seen(directory) == []


@pytest.mark.parametrize(
    ("records", "kind", "match"),
    [
        ([predict_log(1), predict_log(-1)], ModelFailed, r"m:1: warm-up request 1 of .*x is negative"),
        ([b"\xff\xff"], InvalidInput, "warm-up request 0 of .* no PredictionLog"),
        ([predict_log(1, signature="other")], InvalidInput, '"other" not found in signature def'),
        ([predict_log(1, words=["a", "b"])], InvalidInput, "differ in their number of rows"),
        ([feature_log("classify_log")], InvalidInput, "Input is empty"),
        ([b""], Unsupported, "Unsupported log_type for warmup: None"),
        ([session_log()], Unsupported, "session_run_log"),
    ],
)
def test_a_request_that_fails_fails_the_load(
    tmp_path: Path, records: list[bytes], kind: type[TidegateError], match: str
) -> None:
    with pytest.raises(kind, match=match):
        load(version(tmp_path, records))


def test_a_damaged_file_fails_the_load_by_name(tmp_path: Path) -> None:
    directory = version(tmp_path, [predict_log(1)])
    flip(directory / FILE, 15)
    refresh(directory)
    with pytest.raises(InvalidInput, match="tf_serving_warmup_requests: record 0 is damaged"):
        load(directory)
    assert seen(directory) == []


def test_a_thousand_requests_are_enough(tmp_path: Path) -> None:
    directory = version(tmp_path, [predict_log(1)] * 1000)
    load(directory)
    assert len(seen(directory)) == 1000
    write_records(directory / FILE, [predict_log(1)] * 1001)
    refresh(directory)
    with pytest.raises(InvalidInput, match=r"Number of warmup records exceeds the maximum \(1000\)"):
        load(directory)
    assert len(seen(directory)) == 2000, "the one too many was run"


class Doubling:
    """A model in memory."""

    def predict(self, signature: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"y": inputs["x"] * np.float32(2)}

    def close(self) -> None:
        """It holds nothing."""


def spoilt(record: bytes, position: int, byte: int) -> bytes:
    """The record with another byte somewhere."""
    place = position % len(record)
    return record[:place] + bytes([byte]) + record[place + 1 :]


LOGS = st.sampled_from([predict_log(1, 2), *map(feature_log, ["classify_log", "multi_inference_log"], [1, 2])])


@given(st.lists(st.binary(max_size=40) | st.builds(spoilt, LOGS, st.integers(0, 200), st.integers(0, 255)), max_size=3))
def test_any_requests_are_answered_or_refused_with_an_error_of_ours(records: list[bytes]) -> None:
    manifest = Manifest(ServableId("m", 1), "python", {SERVING_DEFAULT: NAMED}, (), "2026-01-01T00:00:00Z")
    with tempfile.TemporaryDirectory() as folder:
        write_records(Path(folder, FILE), records)
        refusal = ""
        try:
            warm_up(LoadedVersion(manifest, Doubling()), Path(folder), WarmUpOptions())
        except TidegateError as error:
            refusal = error.message
    assert not refusal or "tf_serving_warmup_requests" in refusal
