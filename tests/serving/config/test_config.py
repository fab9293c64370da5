"""One config from three places; whatever is wrong is said with the key, the value and the cure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tidegate_serving.config import BatchingConfig, EngineConfig, ModelConfig
from tidegate_serving.config.view import diff, seen, to_toml
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, NotFound
from tidegate_serving.engine import Engine
from tidegate_serving.requests.settings import plane_settings
from tidegate_serving.sources.mlflow.source import MlflowOptions
from tidegate_serving.sources.objects.source import ObjectStoreOptions
from tidegate_serving.typed_config import read_config

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


def test_what_is_said_of_workers_needs_workers(tmp_path: Path) -> None:
    text = '[models.fares]\ninterpreter = "/opt/venv/bin/python"\nprocessors = [0, 1]\n'
    with pytest.raises(InvalidInput, match=r"models\.fares\.interpreter is set, but fares runs in the engine's own"):
        load(tmp_path, text + 'isolation = "engine"\n')
    assert load(tmp_path, text).isolation_of("fares") == "pool", "whatever its platform"
    assert load(tmp_path, text).isolation_of("other") == "auto"
    model = load(tmp_path, text + 'isolation = "own"\n').models["fares"]
    assert (model.interpreter, model.processors) == (Path("/opt/venv/bin/python"), (0, 1))
    assert load(tmp_path, 'isolation = "own"\n' + text).isolation_of("fares") == "own"


def test_a_model_has_batch_sizes_of_its_own(tmp_path: Path) -> None:
    config = load(tmp_path, "[models.m.batching]\nallowed_batch_sizes = [1, 4, 16]\nmax_batch_rows = 16")
    batching = config.models["m"].batching
    assert batching is not None
    assert batching == BatchingConfig(max_batch_rows=16, allowed_batch_sizes=(1, 4, 16))
    assert [batching.size_for(rows) for rows in (1, 2, 4, 5, 16, 17)] == [1, 4, 4, 16, 16, 16]
    assert [config.batching.size_for(rows) for rows in (1, 2, 2000)] == [1, 2, 2000]
    assert "models.m.batching.allowed_batch_sizes = [1, 4, 16]" in to_toml(seen(config))


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
        ("[models.m.batching]\nallowed_batch_sizes = [0, 1024]", "models.m: batching: allowed_batch_sizes is 0: use 1"),
        (
            "[batching]\nallowed_batch_sizes = [8, 4, 1024]",
            "allowed_batch_sizes are [8, 4, 1024]: write them in ascend",
        ),
        (
            "[batching]\nallowed_batch_sizes = [4, 4, 1024]",
            "allowed_batch_sizes are [4, 4, 1024]: write them in ascend",
        ),
        (
            "[batching]\nallowed_batch_sizes = [4, 8]",
            "allowed_batch_sizes end at 8, but max_batch_rows is 1024: let the",
        ),
        ("[batching]\nallowed_batch_sizes = 8", "allowed_batch_sizes is 8: use a list"),
        ("grpc_address = ", "is not TOML"),
        ("grpc_address = 8500", "grpc_address is 8500: use a text in quotes"),
        ("grpc_address = '127.0.0.1'", "grpc_address is '127.0.0.1': write host:port"),
        ("rest_address = '127.0.0.1:65536'", "rest_address is '127.0.0.1:65536': write host:port"),
        ("control_address = '127.0.0.1:-1'", "control_address is '127.0.0.1:-1': write host:port"),
        ("metrics_path = 'metrics'", "metrics_path is 'metrics': write a path such as /monitoring/metrics"),
        ("poll_seconds = nan", "poll_seconds is nan: use a finite number"),
        ("start_seconds = inf", "start_seconds is inf: use a finite number"),
        ("load_threads = 4294967296", "load_threads is 4294967296: use 1024 or less"),
        (
            "log_buffer_bytes = 99999999999999999999",
            "log_buffer_bytes is 99999999999999999999: use 9223372036854775807",
        ),
        ("request_timeout_seconds = 0", "request_timeout_seconds is 0.0: use 0.001 or more"),
        ("warm_up_batch_sizes = [1, 0]", "warm_up_batch_sizes is 0: use 1 or more"),
        ("device_limits_bytes = {'gpu:0' = -1}", "device_limits_bytes.gpu:0 is -1: use 0 or more"),
        ('state_directory = "a\\u0000b"', "state_directory is 'a\\x00b': take the character 0 out of it"),
        ("versions = 'newest'", "versions is 'newest': use latest:N, all, specific:1,4, or none"),
        ("[models.m]\nversions = 'newest'", "models.m: versions is 'newest': use latest:N"),
        ("[models.m]\nlabels = {best = -1}", "models.m: labels.best is -1: use 0 or more"),
        ("[models.m]\nlabels = {'the best' = 1}", "models.m: label 'the best' cannot be used, it has ' '"),
        ("[models.m.batching]\nconcurrency = 9999", "models.m: batching: concurrency is 9999: use 1024 or less"),
        ("[log_columns]\nmail = 'omit'", "log_columns names 'mail': name an input, such as \"in.email\""),
        ("[log_columns]\n'in.mail' = 'drop'", "log_columns.in.mail is 'drop': use one of hash, omit"),
        ("[log_columns]\n'in.mail' = 'hash'", "log_columns has columns to hash, and log_salt_file is not set"),
        (
            "log_path = 'l'\nprediction_log_path = 'p'\n[log_columns]\n'in.mail' = 'omit'",
            "log_columns keeps in.mail out of the log, and prediction_log_path writes requests whole",
        ),
        ("[models.'a b']\nversions = 'all'", "servable name 'a b' cannot be used, it has ' ': take"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(tmp_path, text)
    assert match in caught.value.message
    assert str(tmp_path / "engine.toml") in caught.value.message


def test_columns_of_the_log_are_shown_and_need_a_restart(tmp_path: Path) -> None:
    config = load(tmp_path, "log_salt_file = 'salt'\n[log_columns]\n'in.mail' = 'hash'")
    text = to_toml(seen(config))
    assert 'log_columns."in.mail" = "hash"' in text
    assert 'log_salt_file = "salt"' in text
    with pytest.raises(FailedPrecondition, match="the log's writer holds it"):
        diff(load(tmp_path, ""), config).check_live()


@pytest.mark.parametrize(("salt", "match"), [(None, "cannot be read"), (b"short", "holds 5 bytes")])
def test_a_salt_that_cannot_key_anything_is_refused_at_the_start(
    tmp_path: Path, salt: bytes | None, match: str
) -> None:
    if salt is not None:
        (tmp_path / "salt").write_bytes(salt)
    with pytest.raises(InvalidInput, match=match):
        plane_settings(load(tmp_path, f"log_salt_file = '{tmp_path}/salt'"))


@pytest.mark.parametrize("address", ["", "127.0.0.1:0", "localhost:65535", "[::1]:8502"])
def test_addresses_that_can_be(tmp_path: Path, address: str) -> None:
    assert load(tmp_path, f"control_address = '{address}'").control_address == address


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[platforms.tensorflow]\nintra_threads = 2", "[platforms.tensorflow]: platform 'tensorflow' has no setting"),
        (
            "[platforms.sklearn]\nthreads = 2",
            "[platforms.sklearn]: platform 'sklearn' takes no settings: leave the table out",
        ),
        ("[platforms.onnx]\nthreads = 2", "platform 'onnx' has no setting 'threads': use device, gpu_memory_bytes"),
        (
            '[platforms.onnx]\ndevice = "gpu"',
            "setting 'device' of platform 'onnx' is 'gpu': use one of auto, cpu, cuda",
        ),
        ("[platforms.onxx]", "platforms.onxx sets up a platform that there is not: did you mean onnx?"),
        ("directories = ['/dev/null']", "directories: /dev/null is a file: name a version's directory"),
    ],
)
def test_what_only_the_rooms_know_is_refused_at_the_start(tmp_path: Path, text: str, match: str) -> None:
    config = load(
        tmp_path, f"grpc_address = ''\nrest_address = ''\ncontrol_address = ''\nallow_unverified = true\n{text}"
    )
    with pytest.raises((InvalidInput, NotFound)) as caught:
        Engine(config).start()
    assert match in caught.value.message


def test_a_misspelt_variable_is_refused_and_a_foreign_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="did you mean TIDEGATE_GRPC_ADDRESS"):
        load(tmp_path, "", env={"TIDEGATE_GRPC_ADRESS": "x"})
    load(tmp_path, "", env={"TIDEGATE_HUB_DATABASE": "x"})


@pytest.mark.parametrize(
    ("variable", "table"),
    [
        ("LOG_COLUMNS", "log_columns"),
        ("DEVICE_LIMITS_BYTES", "device_limits_bytes"),
        ("FLEET_CAPACITY_BYTES", "fleet"),
        ("BATCHING_MAX_BATCH_ROWS", "batching"),
    ],
)
def test_what_is_in_a_table_cannot_be_a_variable(tmp_path: Path, variable: str, table: str) -> None:
    """A column that is to be left out of the log is not written as it is because a variable had no effect."""
    with pytest.raises(
        InvalidInput, match=rf"TIDEGATE_{variable} cannot be read: unset it, and write the value into table \[{table}\]"
    ):
        load(tmp_path, "", env={f"TIDEGATE_{variable}": "in.email=omit"})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nowhere\.toml is missing"):
        EngineConfig.load(tmp_path / "nowhere.toml", env={})


def test_every_field_has_a_sentence() -> None:
    for kind in (EngineConfig, ModelConfig, BatchingConfig):
        for name in kind.__dataclass_fields__:
            assert f"\n    {name}: " in (kind.__doc__ or ""), f"{kind.__name__}.{name}"


def test_the_sources_in_the_docs_are_understood(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "model-sources.md").read_text()
    (text,) = [block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[sources." in block]
    (tmp_path / "engine.toml").write_text(text)
    tables = EngineConfig.load(tmp_path / "engine.toml", env={}).sources
    store = read_config(ObjectStoreOptions, tables["object_store"], "model-sources.md", texts=True)
    registry = read_config(MlflowOptions, tables["mlflow"], "model-sources.md", texts=True)
    assert (store.url, store.cache_bytes, registry.models) == (
        "s3://bucket/models",
        50_000_000_000,
        {"flights": "alias:champion"},
    )


@pytest.mark.parametrize("env", [{}, {"TIDEGATE_FLEET_NODE": "a"}])
def test_a_fleet_that_is_no_table_is_refused_whatever_variables_say(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "engine.toml").write_text('fleet = "prod"\n')
    with pytest.raises(InvalidInput, match="fleet"):
        EngineConfig.load(tmp_path / "engine.toml", env)
