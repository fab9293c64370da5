"""Platforms by name: added while an engine runs, kept across a reload, set up by the operator's settings."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from tests.support.models.loading import ID, admit, outputs
from tests.support.models.versions import Draft, digest_of, publish, write_manifest

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, Unavailable, Unsupported
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.model_files import recognised_platform
from tidegate_serving.platforms.platform import PlatformOptions, WarmUpOptions
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.settings import Settings
from tidegate_serving.platforms.tensorflow.platform import TensorflowPlatform
from tidegate_serving.platforms.tensorflow.session import session_config
from tidegate_serving.platforms.version_loader import Elsewhere, VersionLoader
from tidegate_serving.runtime.assembly_sources import plan_sources


class Doubling:
    """A platform and its servable in one."""

    def load(self, directory: Path, manifest: Manifest) -> Doubling:
        return self

    def predict(self, signature: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"y": inputs["x"] * np.float32(2)}

    def close(self) -> None:
        """It holds nothing."""


def test_a_platform_is_added_while_versions_load(tmp_path: Path) -> None:
    registry = installed_platforms(PlatformOptions())
    directory = publish(tmp_path, "m", 1)
    manifest, _ = read_manifest(directory)
    doubling = Manifest(**{**_fields(manifest), "platform": "doubling"})
    path = VersionReference(1, directory, write_manifest(doubling, directory), "doubling")
    loader = VersionLoader(ID, path, registry, admit)
    with pytest.raises(Unsupported, match="'doubling' is unknown"):
        loader.load()
    registry.add("doubling", Doubling)
    assert "doubling" in registry.names
    assert outputs(loader.load(), {"x": np.array([3], "f4")})["y"].tolist() == [6.0]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, r" of m:1 cannot be read \(Permission denied\): let the user that the engine runs as read it"),
        (errno.EMFILE, r" cannot be opened, .* has too many files open: raise that limit"),
    ],
)
def test_files_that_cannot_be_read_are_named_with_what_to_do(tmp_path: Path, number: int, words: str) -> None:
    directory = publish(tmp_path, "m", 1)
    path = VersionReference(1, directory, read_manifest(directory)[1])

    def forbidden(manifest: Manifest, directory: Path) -> None:
        raise OSError(number, os.strerror(number), str(directory / "model.onnx"))

    loader = VersionLoader(ID, path, installed_platforms(PlatformOptions()), admit, verify=forbidden)
    with pytest.raises(Unavailable, match=f"m/1/model.onnx{words}"):
        loader.load()


def _fields(manifest: Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in manifest.__dataclass_fields__}


def test_names_are_taken_once_and_must_be_usable() -> None:
    registry = installed_platforms(PlatformOptions())
    with pytest.raises(AlreadyExists, match="'onnx' is there already"):
        registry.add("onnx", Doubling)
    with pytest.raises(InvalidInput, match="cannot be used"):
        registry.add("../x", Doubling)


def test_packages_are_looked_through_only_for_a_platform_that_is_not_built_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offered = {"doubling": lambda options: Doubling(), "onnx": lambda options: Doubling()}
    entries = [SimpleNamespace(name=name, load=lambda made=made: made) for name, made in offered.items()]
    looks: list[str] = []

    def look(group: str) -> list[SimpleNamespace]:
        looks.append(group)
        return entries

    monkeypatch.setattr(metadata, "entry_points", look)
    registry = installed_platforms(PlatformOptions())
    assert registry.check("onnx") == "onnx"
    assert looks == [], "a worker has to start at once"
    assert registry.check("doubling") == "doubling"
    assert {"doubling", "onnx"} < {*registry.names}
    with pytest.raises(AlreadyExists):
        registry.add("doubling", Doubling)
    assert looks == ["tidegate.platforms"]
    caplog.clear()
    plan_sources(EngineConfig(allow_unverified=True))
    assert "a platform 'onnx', which is built in and stays as it is" in caplog.text, "an engine says so at its start"


def test_a_reload_brings_new_options_and_keeps_what_was_added() -> None:
    registry = installed_platforms(PlatformOptions())
    registry.add("doubling", Doubling)
    registry.take_over(installed_platforms(PlatformOptions(warm_up=WarmUpOptions(iterations=3))))
    assert registry.warm_up.iterations == 3
    assert registry.check("doubling") == "doubling"


def test_settings_become_tensorflows_own() -> None:
    values = {
        "session_config": "intra_op_parallelism_threads: 9 use_per_session_threads: true",
        "intra_op_threads": "3",
        "inter_op_threads": "2",
        "memory_growth": "true",
        "memory_fraction": "0.25",
    }
    v1 = SimpleNamespace(ConfigProto=message("tensorflow.ConfigProto"))
    config = session_config(v1, Settings("tensorflow", values, values))
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (3, 2)
    assert config.use_per_session_threads
    assert config.gpu_options.allow_growth
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.25


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"session_config": "threads: 1"}, "no ConfigProto"),
        ({"intra_op_threads": "-1"}, "'intra_op_threads' of platform 'tensorflow' is '-1': use a whole number"),
        ({"memory_fraction": "2"}, "use a share above 0"),
        ({"memory_fraction": "much"}, "use a share above 0"),
        ({"memory_growth": "maybe"}, "use true or false"),
    ],
)
def test_settings_of_no_sense_are_named(values: dict[str, str], match: str) -> None:
    v1 = SimpleNamespace(ConfigProto=message("tensorflow.ConfigProto"))
    with pytest.raises(InvalidInput, match=match):
        session_config(v1, Settings("tensorflow", values, values))


def test_an_unknown_setting_names_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="has no setting 'intra_threads': use inter_op_threads, intra_op_threads"):
        TensorflowPlatform(PlatformOptions(settings={"tensorflow": {"intra_threads": "1"}}))


@pytest.mark.parametrize(
    ("names", "platform"),
    [
        (["model.onnx", "notes.txt"], "onnx"),
        (["MLmodel", "model.skops"], "mlflow"),
        (["saved_model.pb", "variables"], "tensorflow"),
        (["a.ubj", "b.onnx"], None),
        (["model.txt"], None),
    ],
)
def test_files_tell_their_platform_by_their_names(tmp_path: Path, names: list[str], platform: str | None) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert recognised_platform(tmp_path) == platform
    if len(names) == 1 or platform == "onnx":
        assert recognised_platform(tmp_path / names[0]) == platform


@pytest.mark.parametrize("name", ["forest.txt", "forest.model"])
def test_a_booster_of_lightgbm_is_told_by_how_it_begins(tmp_path: Path, name: str) -> None:
    rows = np.random.default_rng(1).random((60, 2))
    booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(rows, label=rows[:, 0]), 2)
    booster.save_model(str(tmp_path / name))

    assert recognised_platform(tmp_path / name) == recognised_platform(tmp_path) == "lightgbm"


@pytest.mark.parametrize(
    ("written", "name"), [("json", "forest.json"), ("ubj", "forest.model"), ("json", "forest.xgb")]
)
def test_a_booster_of_xgboost_is_told_by_how_it_begins(tmp_path: Path, written: str, name: str) -> None:
    rows = np.random.default_rng(1).random((60, 2))
    booster = xgboost.train({}, xgboost.DMatrix(rows, label=rows[:, 0]), 2)
    (tmp_path / name).write_bytes(booster.save_raw(written))
    (tmp_path / "notes.txt").write_text("trained in June")

    assert recognised_platform(tmp_path / name) == recognised_platform(tmp_path) == "xgboost"


ON_GPU = {"torch": {"device": "cuda:1"}, "onnx": {"device": "tensorrt", "gpu_memory_bytes": "1000"}}


def test_what_is_python_code_or_runs_on_a_gpu_is_better_kept_out_of_the_engines_process() -> None:
    registry = installed_platforms(PlatformOptions(settings=ON_GPU))
    registry.add("doubling", Doubling)
    apart = {name for name in registry.names if registry.runs_apart(name)}
    assert apart == {"mlflow", "onnx", "python", "stages", "torch"}
    processor = {platform: {"device": "cpu"} for platform in ON_GPU}
    on_processor = installed_platforms(PlatformOptions(settings=processor))
    assert not on_processor.runs_apart("torch")
    assert not on_processor.runs_apart("onnx")


@pytest.mark.parametrize(("platform", "gpu"), [("torch", {"gpu:1": 3600}), ("onnx", {"gpu:0": 3000}), ("sklearn", {})])
def test_a_version_in_workers_counts_on_its_gpu_as_often_as_there_are_copies(
    tmp_path: Path, platform: str, gpu: dict[str, int]
) -> None:
    directory = publish(tmp_path, "m", 1, Draft(platform, {"model": b"m" * 1000}))
    path = VersionReference(1, directory, digest_of(directory), platform)
    registry = installed_platforms(PlatformOptions(settings=ON_GPU))
    elsewhere = Elsewhere(lambda manifest, directory: pytest.fail("an estimate loads nothing"), lambda manifest: 3)
    assert VersionLoader(ID, path, registry, admit, elsewhere=elsewhere).estimate() == {"ram": 1200, **gpu}
