"""TensorFlow Serving's command line, flag by flag."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.model import BatchingConfig
from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unsupported
from tidegate_serving.tensorflow_serving.command_line import parse_command_line
from tidegate_serving.tensorflow_serving.flag_table import FLAGS, Fate, flags_help
from tidegate_serving.tensorflow_serving.flags import parse_flags

BASE = "--model_base_path=/models/m"
# Every flag of tensorflow_model_server, as its usage text lists them.
REAL = [
    "port",
    "grpc_socket_path",
    "rest_api_port",
    "rest_api_num_threads",
    "rest_api_timeout_in_ms",
    "rest_api_enable_cors_support",
    "enable_batching",
    "allow_version_labels_for_unavailable_models",
    "batching_parameters_file",
    "enable_per_model_batching_parameters",
    "model_config_file",
    "model_config_file_poll_wait_seconds",
    "model_name",
    "model_base_path",
    "num_load_threads",
    "num_unload_threads",
    "max_num_load_retries",
    "load_retry_interval_micros",
    "file_system_poll_wait_seconds",
    "flush_filesystem_caches",
    "tensorflow_session_parallelism",
    "tensorflow_session_config_file",
    "tensorflow_intra_op_parallelism",
    "tensorflow_inter_op_parallelism",
    "use_alts_credentials",
    "ssl_config_file",
    "platform_config_file",
    "per_process_gpu_memory_fraction",
    "saved_model_tags",
    "grpc_channel_arguments",
    "grpc_max_threads",
    "enable_model_warmup",
    "num_request_iterations_for_warmup",
    "version",
    "monitoring_config_file",
    "remove_unused_fields_from_bundle_metagraph",
    "prefer_tflite_model",
    "num_tflite_pools",
    "num_tflite_interpreters_per_pool",
    "enable_signature_method_name_check",
    "xla_cpu_compilation_enabled",
    "xla_gpu_compilation_enabled",
    "enable_profiler",
    "thread_pool_factory_config_file",
    "mixed_precision",
    "skip_initialize_tpu",
    "enable_grpc_healthcheck_service",
    "enable_serialization_as_tensor_content",
]


def config(*arguments: str, env: dict[str, str] | None = None) -> EngineConfig:
    return parse_command_line(arguments, env or {}).config()


def test_every_flag_of_the_binary_is_known_and_explained() -> None:
    assert sorted(flag.name for flag in FLAGS) == sorted(REAL)
    assert all(f"--{flag.name}=" in flags_help() and flag.note for flag in FLAGS)


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--port=1234"], "port", 1234),
        (["--port", "1234"], "port", 1234),
        (["-port=1234"], "port", 1234),
        (["--port=1", "--port=2"], "port", 2),
        ([], "port", 8500),
        ([], "rest_api_port", 0),
        ([], "file_system_poll_wait_seconds", 1),
        ([], "enable_model_warmup", True),
        (["--enable_batching"], "enable_batching", True),
        (["--enable_batching=true"], "enable_batching", True),
        (["--enable_batching", "true"], "enable_batching", True),
        (["--enable_batching=false"], "enable_batching", False),
        (["--noenable_model_warmup"], "enable_model_warmup", False),
        (["--model_name", "a=b"], "model_name", "a=b"),
        (["--model_name="], "model_name", ""),
        (["--per_process_gpu_memory_fraction=0.25"], "per_process_gpu_memory_fraction", 0.25),
        (["--file_system_poll_wait_seconds=-1"], "file_system_poll_wait_seconds", -1),
    ],
)
def test_values(arguments: list[str], name: str, value: object) -> None:
    assert parse_flags(arguments)[name] == value


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--prot=1"], "unknown argument: --prot=1: did you mean --port?"),
        (["--something_else"], "unknown argument: --something_else: see --help"),
        (["model"], "unknown argument: model"),
        (["--port=many"], "--port is 'many': use a whole number"),
        (["--port"], "--port has no value: write --port=VALUE"),
        (["--enable_batching=perhaps"], "--enable_batching is 'perhaps': use true or false"),
        (["--noport"], "unknown argument: --noport"),
        (["--noenable_batching=true"], "unknown argument"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_flags(arguments)
    assert text in caught.value.message


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.fate is Fate.REFUSED], ids=lambda flag: flag.name)
def test_what_would_be_dangerous_to_ignore_is_refused(flag: Any) -> None:
    value = "true" if isinstance(flag.default, bool) else "x"
    with pytest.raises(Unsupported, match=f"--{flag.name} is not supported: "):
        parse_flags([f"--{flag.name}={value}"])
    assert parse_flags([f"--{flag.name}={str(flag.default).lower() if value == 'true' else ''}"]).given == {flag.name}


def test_what_has_no_effect_is_said_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse_flags(["--grpc_max_threads=8", "--flush_filesystem_caches=true", "--noenable_profiler"])
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "--grpc_max_threads has no effect",
        "--enable_profiler has no effect",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"grpc_address": "0.0.0.0:8500", "rest_address": "", "poll_seconds": 1.0, "load_threads": 1}),
        ([], {"allow_unverified": True, "allow_unpublished": True}),
        ([], {"allow_reload_requests": True, "allow_pickle": False}),
        ([], {"retry_most_seconds": 60.0, "request_timeout_seconds": 30.0, "batching": BatchingConfig()}),
        (["--rest_api_port=8501"], {"rest_address": "0.0.0.0:8501"}),
        (["--rest_api_port=8500"], {"rest_address": ""}),
        (["--port=0", "--grpc_socket_path=/tmp/s"], {"grpc_address": "", "grpc_socket_path": Path("/tmp/s")}),
        (["--rest_api_timeout_in_ms=1500"], {"request_timeout_seconds": 1.5}),
        (["--num_load_threads=4", "--num_unload_threads=3"], {"load_threads": 4, "unload_threads": 3}),
        ([], {"retry_first_seconds": 60.0, "load_retries": 5}),
        (["--max_num_load_retries=0"], {"load_retries": 0}),
        (["--max_num_load_retries=-2"], {"load_retries": -1}),
        (["--load_retry_interval_micros=500000"], {"retry_first_seconds": 0.5, "retry_most_seconds": 0.5}),
        (["--load_retry_interval_micros=-1"], {"retry_first_seconds": 0.001, "retry_most_seconds": 0.001}),
        (["--file_system_poll_wait_seconds=0"], {"poll_seconds": 0.0}),
        (["--file_system_poll_wait_seconds=-1"], {"poll_seconds": 0.0}),
        (["--noenable_model_warmup"], {"warm_up": False}),
        (["--allow_version_labels_for_unavailable_models"], {"labels_may_wait": True}),
        (["--enable_serialization_as_tensor_content"], {"tensor_content": True}),
        (["--ssl_config_file=/etc/ssl.config"], {"grpc_ssl_config": Path("/etc/ssl.config")}),
        (["--num_request_iterations_for_warmup=3"], {"warm_up": True, "warm_up_iterations": 3}),
        (["--saved_model_tags=serve,gpu"], {"platforms": {"tensorflow": {"tags": "serve,gpu"}}}),
        (
            ["--tensorflow_session_parallelism=2"],
            {"platforms": {"tensorflow": {"tags": "serve", "intra_op_threads": 2, "inter_op_threads": 2}}},
        ),
        (
            ["--tensorflow_intra_op_parallelism=3", "--per_process_gpu_memory_fraction=0.5"],
            {
                "platforms": {
                    "tensorflow": {
                        "tags": "serve",
                        "intra_op_threads": 3,
                        "inter_op_threads": 0,
                        "memory_fraction": 0.5,
                    }
                }
            },
        ),
    ],
)
def test_flags_become_a_config(arguments: list[str], expected: dict[str, object]) -> None:
    made = config(BASE, *arguments)
    assert {key: getattr(made, key) for key in expected} == expected


def test_one_model_comes_from_its_base_path() -> None:
    made = config("--model_name=flights", "--model_base_path=/models/flights")
    model = made.models["flights"]
    assert (model.path, model.platform, model.versions) == ("/models/flights", "tensorflow", "latest:1")
    assert list(config(BASE).models) == ["default"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Both model_base_path and model_config_file are empty!"),
        (
            ["--model_base_path=models"],
            "Expected model default to have an absolute path or URI; got base_path()=",
        ),
        ([BASE, "--port=0"], "At least one of --port and --grpc_socket_path must be set"),
        ([BASE, "--batching_parameters_file=/x"], "batching_parameters_file is set without setting enable_batching"),
        (
            [BASE, *(f"--tensorflow_{kind}_parallelism=1" for kind in ("session", "intra_op", "inter_op"))],
            "You cannot configure all.",
        ),
        ([BASE, "--monitoring_config_file=/nowhere/m"], "--monitoring_config_file names /nowhere/m, which is no file"),
        (["--model_config_file=/nowhere/m"], "--model_config_file names /nowhere/m, which is no file"),
        ([BASE, "--model_name=a b"], "servable name 'a b' cannot be used"),
    ],
)
def test_command_lines_that_cannot_be_used(arguments: list[str], text: str) -> None:
    with pytest.raises(TidegateError) as caught:
        config(*arguments)
    assert text in caught.value.message


@pytest.mark.parametrize(
    ("flag", "key", "text", "by_variable", "by_flag"),
    [
        ("--rest_api_timeout_in_ms=7000", "request_timeout_seconds", "5", 5.0, 7.0),
        ("--num_load_threads=3", "load_threads", "7", 7, 3),
        ("--file_system_poll_wait_seconds=9", "poll_seconds", "30", 30.0, 9.0),
        ("--max_num_load_retries=2", "load_retries", "-1", -1, 2),
        ("--enable_model_warmup=true", "warm_up", "false", False, True),
        ("--noenable_serialization_as_tensor_content", "tensor_content", "true", True, False),
        ("--grpc_socket_path=/run/other", "grpc_socket_path", "/run/s", Path("/run/s"), Path("/run/other")),
    ],
)
def test_a_flag_counts_more_than_a_variable_and_its_default_does_not(
    flag: str, key: str, text: str, by_variable: object, by_flag: object
) -> None:
    env = {f"TIDEGATE_{key.upper()}": text}
    assert getattr(config(BASE, env=env), key) == by_variable
    assert getattr(config(BASE, flag, env=env), key) == by_flag


def test_what_no_flag_says_is_up_to_variables() -> None:
    env = {"TIDEGATE_MAX_MESSAGE_BYTES": "1048576", "TIDEGATE_ALLOW_RELOAD_REQUESTS": "false"}
    made = config(BASE, env=env)
    assert (made.max_message_bytes, made.allow_reload_requests) == (1048576, False)


def test_variables_fill_in_what_flags_do_not_say() -> None:
    env = {"TIDEGATE_QUIET_SECONDS": "0.5", "TIDEGATE_CONTROL_ADDRESS": "127.0.0.1:9", "TIDEGATE_GRPC_ADDRESS": "x:1"}
    made = config(BASE, env=env)
    assert (made.quiet_seconds, made.control_address, made.grpc_address) == (0.5, "127.0.0.1:9", "0.0.0.0:8500")
