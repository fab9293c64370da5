"""Versions in other servers' repositories: complete, under their number, with configs that their schemas take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf import text_format
from onnx import TensorProto, helper
from tensorflow_serving.config import model_server_config_pb2
from tests.support.command import Command
from tests.support.release.world import World, make_world
from tritonclient.grpc import model_config_pb2

from tidegate_operators.steps import Publication, publish
from tidegate_operators.steps.export import (
    AdmittedVersion,
    admitted,
    export_tensorflow_serving,
    export_triton,
    tensorflow_serving,
)
from tidegate_serving.contract.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidInput,
    NotAdmitted,
    Tampered,
    Unsupported,
)
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.files import hold


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def onnx_model(path: Path, shape: list[Any], factor: float = 2.0, outputs: list[Any] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        "twice",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape if outputs is None else outputs)],
        [helper.make_tensor("factor", TensorProto.FLOAT, [], [factor])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def version_of(world: World, name: str, number: int, files: Path, platform: str, example: Any = 0.0) -> AdmittedVersion:
    publication = Publication(
        files=files,
        servable=name,
        version=number,
        platform=platform,
        repository=world.repository,
        example={"x": example},
    )
    directory = publish(publication).directory
    world.admit(directory)
    return admitted(directory, trusted=[world.public_key])


def twice(world: World, number: int = 1, shape: list[Any] | None = None, **given: Any) -> AdmittedVersion:
    sizes = ["n", 3] if shape is None else shape
    model = onnx_model(world.root / f"trained-{number}" / "weights.onnx", sizes, **given)
    row: list[Any] = [] if sizes[1:] == [1] else sizes[1:]
    return version_of(world, "twice", number, model, "onnx", np.zeros(row).tolist())


def triton_config(repository: Path) -> Any:
    text = (repository / "twice" / "config.pbtxt").read_text()
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_triton_gets_an_onnx_model_with_a_config_from_its_signature(world: World) -> None:
    target = world.root / "triton"
    done = export_triton(twice(world, 7), target)
    assert (done.directory, done.config, done.changed) == (
        target / "twice" / "7",
        target / "twice" / "config.pbtxt",
        True,
    )
    assert [path.name for path in (target / "twice" / "7").iterdir()] == ["model.onnx"]
    session = onnxruntime.InferenceSession(target / "twice" / "7" / "model.onnx")
    assert session.run(None, {"x": np.ones((2, 3), "f4")})[0].tolist() == [[2.0] * 3] * 2
    config = triton_config(target)
    assert (config.name, config.platform, config.max_batch_size) == ("twice", "onnxruntime_onnx", 64)
    assert [(one.name, one.data_type, list(one.dims)) for one in (*config.input, *config.output)] == [
        ("x", model_config_pb2.TYPE_FP32, [3]),
        ("y", model_config_pb2.TYPE_FP32, [3]),
    ]
    assert config.HasField("dynamic_batching")
    assert not export_triton(twice_again(world, 7), target).changed
    assert export_triton(twice(world, 8, factor=3.0), target).changed


def twice_again(world: World, number: int) -> AdmittedVersion:
    return admitted(world.repository / "twice" / str(number), trusted=[world.public_key])


def test_a_column_is_what_the_graph_declares_not_what_our_signature_says(world: World) -> None:
    version = twice(world, shape=["n", 1])
    assert version.signature.inputs[0].shape == (-1,)
    export_triton(version, world.root / "triton")
    config = triton_config(world.root / "triton")
    assert (config.max_batch_size, list(config.input[0].dims)) == (64, [1])


@pytest.mark.parametrize("name", ['s" dims: [ 9 ] x: "', "a\\b"])
def test_a_name_cannot_write_into_the_config(world: World, name: str) -> None:
    version = twice(world)
    signature = Signature((TensorSpec(name, "float32", (-1, 3)),), (TensorSpec("y", "float32", (-1, 3)),))
    manifest = replace(version.manifest, platform="tensorflow", signatures={"serving_default": signature})
    with pytest.raises(Unsupported, match="has a quote or a backslash in its name"):
        export_triton(replace(version, manifest=manifest), world.root / "triton")


def test_complex_numbers_have_no_type_in_triton(world: World) -> None:
    version = twice(world)
    signature = Signature((TensorSpec("z", "complex64", (-1, 3)),), (TensorSpec("y", "float32", (-1, 3)),))
    manifest = replace(version.manifest, platform="tensorflow", signatures={"serving_default": signature})
    with pytest.raises(Unsupported, match="input 'z' is complex64, which Triton has no type for: leave it out"):
        export_triton(replace(version, manifest=manifest), world.root / "triton")


@pytest.mark.parametrize(("shape", "batch"), [(["n"], 64), (["n", 3], 0), ([4, 3], 64), ([4, 1], 64)])
def test_what_triton_cannot_put_together_runs_alone(world: World, shape: list[Any], batch: int) -> None:
    export_triton(twice(world, shape=shape), world.root / "triton", max_batch_size=batch)
    config = triton_config(world.root / "triton")
    assert (config.max_batch_size, config.HasField("dynamic_batching")) == (0, False)
    assert list(config.input[0].dims) == [-1 if isinstance(size, str) else size for size in shape]


def test_what_triton_cannot_load_is_refused_with_its_reason(world: World) -> None:
    target = world.root / "triton"
    with pytest.raises(Unsupported, match="input 'x' has no axis that is known, which a Triton config cannot say"):
        export_triton(twice(world, 1, shape=[], outputs=[]), target)
    python = admitted(world.admitted(2), trusted=[world.public_key])
    with pytest.raises(Unsupported, match=r"platform 'python': Triton gets onnx and tensorflow models"):
        export_triton(python, target)
    with pytest.raises(Unsupported, match="has number 0, which Triton takes for no version"):
        export_triton(twice(world, 0), target)
    assert not target.exists()
    export_triton(twice(world, 3), target)
    with pytest.raises(FailedPrecondition, match="says something else than the signature of twice:4"):
        export_triton(twice(world, 4, shape=["n", 5]), target)
    assert not (target / "twice" / "4").exists()
    assert export_triton(twice_again(world, 4), target, keep_config=True).changed


def test_other_files_under_the_same_number_stay(world: World) -> None:
    target = world.root / "triton"
    export_triton(twice(world), target)
    (target / "twice" / "1" / "model.onnx").write_bytes(b"somebody's")
    with pytest.raises(AlreadyExists, match=f"{target}/twice/1 holds other files"):
        export_triton(twice_again(world, 1), target)
    assert (target / "twice" / "1" / "model.onnx").read_bytes() == b"somebody's"


def test_nothing_is_written_that_no_verdict_lets_in(world: World) -> None:
    version = twice(world)
    world.admit(version.directory, allowed=False)
    with pytest.raises(NotAdmitted, match="is not exported"):
        admitted(version.directory, trusted=[world.public_key])
    (world.repository / "twice" / "1.verdict.json").unlink()
    with pytest.raises(NotAdmitted):
        admitted(version.directory, trusted=[world.public_key])
    world.admit(version.directory)
    (world.root / "others").mkdir()
    other = make_world(world.root / "others")
    with pytest.raises(NotAdmitted):
        admitted(version.directory, trusted=[other.public_key])
    onnx_model(version.directory / "weights.onnx", ["n", 3], factor=9.0)
    with pytest.raises(NotAdmitted):
        admitted(version.directory, trusted=[world.public_key])
    with pytest.raises(Tampered, match="changed while it was copied"):
        export_triton(version, world.root / "triton")
    assert not list((world.root / "triton").rglob("*.onnx"))


def test_tensorflow_serving_finds_the_version_and_its_label(
    world: World, saved_models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target, config = world.root / "tfs", world.root / "models.config"
    config.write_text(
        'model_config_list { config { name: "other" base_path: "/srv/other" model_platform: "tensorflow" } }'
    )
    for number in (2, 5):
        version_of(world, "half", number, saved_models / "half_plus_two" / "1", "tensorflow")
    tidegate = Command(monkeypatch, capsys)
    key, listed = ("--key", world.public_key), ("--config", config)
    assert (
        tidegate("export", "tensorflow-serving", world.repository / "half" / "2", target, *key, *listed).returncode == 0
    )
    done = tidegate(
        "export", "tensorflow-serving", world.repository / "half" / "5", target, *key, *listed, "--label", "stable"
    )
    assert f"half:5 is in {target}/half/5" in done.stdout.replace("\n", ""), done.stderr
    again = tidegate("export", "tensorflow-serving", world.repository / "half" / "5", target, *key)
    assert "as it was" in again.stdout.replace("\n", " ")
    there = {path.relative_to(target / "half").as_posix() for path in (target / "half").glob("*/*")}
    assert {"5/saved_model.pb", "5/variables", "2/saved_model.pb"} <= there
    assert not any("manifest" in path or "profile" in path for path in there)
    parsed = text_format.Parse(config.read_text(), model_server_config_pb2.ModelServerConfig())
    other, half = parsed.model_config_list.config
    assert other.base_path == "/srv/other"
    assert (half.base_path, list(half.model_version_policy.specific.versions)) == (str(target / "half"), [2, 5])
    assert dict(half.version_labels) == {"stable": 5}


@pytest.mark.parametrize("policy", ["all {}", "latest { num_versions: 2 }", ""])
def test_a_list_that_serves_more_than_named_versions_goes_on_doing_so(
    world: World, saved_models: Path, policy: str
) -> None:
    target, config = world.root / "tfs", world.root / "models.config"
    said = f"model_version_policy {{ {policy} }}" if policy else ""
    text = f'model_config_list {{ config {{ name: "half" base_path: "{target}/half" {said} }} }}'
    config.write_text(text)
    half = version_of(world, "half", 2, saved_models / "half_plus_two" / "1", "tensorflow")
    export_tensorflow_serving(half, target, config=config, labels=["stable"])
    parsed = text_format.Parse(config.read_text(), model_server_config_pb2.ModelServerConfig())
    before = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (found,), (was,) = parsed.model_config_list.config, before.model_config_list.config
    assert found.model_version_policy == was.model_version_policy
    assert dict(found.version_labels) == {"stable": 2}


def test_a_list_that_is_named_by_a_link_is_written_where_it_leads_by_one_writer_at_a_time(
    world: World, saved_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Path] = []

    @contextmanager
    def noted(lock: Path) -> Iterator[None]:
        held.append(lock)
        with hold(lock):
            yield

    monkeypatch.setattr(tensorflow_serving, "hold", noted)
    target, config, link = world.root / "tfs", world.root / "shared" / "models.config", world.root / "link.config"
    link.symlink_to(Path("shared", "models.config"))
    half = version_of(world, "half", 1, saved_models / "half_plus_two" / "1", "tensorflow")
    done = export_tensorflow_serving(half, target, config=link)
    assert (done.config, done.changed, link.is_symlink()) == (link, True, True)
    assert 'name: "half"' in config.read_text()
    assert not export_tensorflow_serving(half, target, config=config).changed
    assert held == [config.with_name(".models.config.lock")] * 2


def test_a_list_by_which_the_version_would_not_serve_is_refused_before_anything_is_written(
    world: World, saved_models: Path
) -> None:
    target, config = world.root / "tfs", world.root / "models.config"
    (target / "half" / "3").mkdir(parents=True)
    half = version_of(world, "half", 2, saved_models / "half_plus_two" / "1", "tensorflow")
    for place, words in ((f"{target}/half", "version 2 is older"), ("s3://bucket/half", "has 'half' at 's3://bucket")):
        text = f'model_config_list {{ config {{ name: "half" base_path: "{place}" }} }}'
        config.write_text(text)
        with pytest.raises(FailedPrecondition, match=words):
            export_tensorflow_serving(half, target, config=config)
        assert config.read_text() == text
    assert not (target / "half" / "2").exists()


def test_what_tensorflow_serving_cannot_take_is_refused(world: World, saved_models: Path) -> None:
    with pytest.raises(Unsupported, match="TensorFlow Serving loads SavedModels alone"):
        export_tensorflow_serving(twice(world), world.root / "tfs")
    half = version_of(world, "half", 1, saved_models / "half_plus_two" / "1", "tensorflow")
    with pytest.raises(InvalidInput, match="give its file as config"):
        export_tensorflow_serving(half, world.root / "tfs", labels=["stable"])
    broken = world.root / "models.config"
    broken.write_text("model_config_list {")
    with pytest.raises(InvalidInput, match="Error parsing text-format"):
        export_tensorflow_serving(half, world.root / "tfs", config=broken)
    export = export_triton(half, world.root / "triton")
    assert (export.directory / "model.savedmodel" / "saved_model.pb").is_file()
