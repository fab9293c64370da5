"""One config from three places; whatever is wrong is said with the key, the value and the cure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tidegate_serving.config import BatchingConfig, EngineConfig, ModelConfig
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.sources.mlflow.source import MlflowOptions
from tidegate_serving.sources.objects.source import ObjectStoreOptions
from tidegate_serving.typed_values import convert

FILE = """
grpc_address = "0.0.0.0:1"
roots = ["/a", "/b"]
drain_seconds = 5

[batching]
max_batch_rows = 8

[models.flights]
versions = "latest:2"
labels = {stable = 1}
batching = {timeout_us = 100}
"""


def load(path: Path, text: str, **more: Any) -> EngineConfig:
    file = path / "engine.toml"
    file.write_text(text)
    return EngineConfig.load(file, **{"env": {}, **more})


def test_defaults_bind_to_loopback() -> None:
    config = EngineConfig.load(env={})
    assert config == EngineConfig()
    assert {config.grpc_address, config.rest_address, config.control_address} == {
        "127.0.0.1:8500",
        "127.0.0.1:8501",
        "127.0.0.1:8502",
    }


def test_a_file_is_read_into_types(tmp_path: Path) -> None:
    config = load(tmp_path, FILE)
    assert config.roots == (Path("/a"), Path("/b"))
    assert config.drain_seconds == 5.0
    assert config.batching == BatchingConfig(max_batch_rows=8)
    assert config.models == {
        "flights": ModelConfig(versions="latest:2", labels={"stable": 1}, batching=BatchingConfig(timeout_us=100))
    }


def test_variables_beat_the_file_and_overrides_beat_both(tmp_path: Path) -> None:
    env = {
        "TIDEGATE_GRPC_ADDRESS": "v:1",
        "TIDEGATE_ROOTS": "/x:/y",
        "TIDEGATE_ALLOW_PICKLE": "yes",
        "TIDEGATE_POLL_SECONDS": "0.5",
        "TIDEGATE_LOG_PATH": "/log",
        "OTHER": "x",
    }
    overrides = {"grpc_address": "o:1", "rest_address": None}
    config = load(tmp_path, FILE, env=env, overrides=overrides)
    assert (config.grpc_address, config.rest_address) == ("o:1", "127.0.0.1:8501")
    assert (config.roots, config.log_path) == ((Path("/x"), Path("/y")), Path("/log"))
    assert (config.allow_pickle, config.poll_seconds) == (True, 0.5)


def test_each_value_knows_where_it_came_from(tmp_path: Path) -> None:
    env = {"TIDEGATE_POLL_SECONDS": "3", "TIDEGATE_DRAIN_SECONDS": "4"}
    overrides = {"drain_seconds": 6.0, "batching": {"timeout_us": 1}}
    origins = load(tmp_path, FILE, env=env, overrides=overrides).origins
    file = str(tmp_path / "engine.toml")
    assert origins == {
        "grpc_address": file,
        "roots": file,
        "poll_seconds": "variable TIDEGATE_POLL_SECONDS",
        "drain_seconds": "command line",
        "batching.timeout_us": "command line",
        "models.flights.versions": file,
        "models.flights.labels.stable": file,
        "models.flights.batching.timeout_us": file,
    }


def test_an_empty_value_is_none(tmp_path: Path) -> None:
    assert load(tmp_path, 'log_path = "/log"', env={"TIDEGATE_LOG_PATH": ""}).log_path is None


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("grcp_address = 'x'", "unknown key 'grcp_address': did you mean grpc_address?"),
        ("zzz = 1", "unknown key 'zzz': known are grpc_address"),
        ("[batching]\nmax_rows = 1", "batching has an unknown key 'max_rows': did you mean"),
        ("[models.m]\nlabel = {}", "models.m has an unknown key 'label': did you mean labels?"),
        ("load_threads = 'many'", "load_threads is 'many': use a whole number"),
        ("load_threads = 1.5", "load_threads is 1.5: use"),
        ("load_threads = true", "load_threads is True: use"),
        ("load_threads = 0", "load_threads is 0: use 1 or more"),
        ("drain_seconds = -1", "drain_seconds is -1.0: use 0 or more"),
        ("log_sampling_rate = 1.1", "log_sampling_rate is 1.1: use a share from 0 to 1"),
        ("policy = 'best'", "policy is 'best': use availability or resources"),
        ("allow_pickle = 'perhaps'", "allow_pickle is 'perhaps': use true or false"),
        ("roots = 5", "roots is 5: use a list"),
        ("batching = 5", "batching is 5: use a table"),
        ("repository = 5", "repository is 5: use a path"),
        ("[batching]\nmax_batch_rows = 0", "max_batch_rows is 0: use 1 or more"),
        ("grpc_address = ", "is not TOML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(tmp_path, text)
    assert match in caught.value.message
    assert "engine.toml" in caught.value.message or " is " in match


def test_a_misspelt_variable_is_refused_and_a_foreign_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="did you mean TIDEGATE_GRPC_ADDRESS"):
        load(tmp_path, "", env={"TIDEGATE_GRPC_ADRESS": "x"})
    load(tmp_path, "", env={"TIDEGATE_HUB_DATABASE": "x"})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nowhere\.toml is missing"):
        EngineConfig.load(tmp_path / "nowhere.toml", env={})


def test_every_field_has_a_sentence() -> None:
    for kind in (EngineConfig, ModelConfig, BatchingConfig):
        for name in kind.__dataclass_fields__:
            assert f"\n    {name}: " in (kind.__doc__ or ""), f"{kind.__name__}.{name}"


def test_the_sources_in_the_readme_are_understood(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    (text,) = [block for block in re.findall(r"```toml\n(.*?)```", readme, re.DOTALL) if "[sources." in block]
    (tmp_path / "engine.toml").write_text(text)
    tables = EngineConfig.load(tmp_path / "engine.toml", env={}).sources
    store: ObjectStoreOptions = convert(ObjectStoreOptions, tables["object_store"], where="README.md")
    registry: MlflowOptions = convert(MlflowOptions, tables["mlflow"], where="README.md")
    assert (store.url, store.cache_bytes, registry.models) == (
        "s3://bucket/models",
        50_000_000_000,
        {"flights": "alias:champion"},
    )
