"""Every flag of TensorFlow Serving's binary: its kind, its default, and what becomes of it here.

The parser of the command line reads the table; the command's help and the README show it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Fate(enum.Enum):
    """What becomes of a flag."""

    USED = "used"
    IDLE = "accepted, no effect"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Flag:
    """`default` gives the kind: bool, int, float or str. `note` says what it does, or why it does nothing here."""

    name: str
    default: bool | int | float | str
    note: str
    fate: Fate = Fate.USED


def _idle(name: str, default: bool | int | float | str, why: str) -> Flag:
    return Flag(name, default, why, Fate.IDLE)


def _refused(name: str, default: bool | int | float | str, why: str) -> Flag:
    return Flag(name, default, why, Fate.REFUSED)


FLAGS = (
    Flag("port", 8500, "gRPC port, on all interfaces; 0 closes it, where grpc_socket_path is set"),
    Flag("grpc_socket_path", "", "serve gRPC on this UNIX socket too"),
    Flag("ssl_config_file", "", "text-format SSLConfig: gRPC with TLS; REST stays in plain text"),
    Flag("rest_api_port", 0, "REST port; 0 for none"),
    Flag("rest_api_timeout_in_ms", 30000, "limit for a request without a deadline of its own"),
    Flag("enable_batching", False, "batch by batching_parameters_file, or by TensorFlow Serving's defaults"),
    Flag("batching_parameters_file", "", "text-format BatchingParameters; needs enable_batching"),
    Flag(
        "enable_per_model_batching_parameters",
        False,
        "batch by batching_params.pbtxt of a model's newest version, where it lies when the list of models is read",
    ),
    Flag("model_config_file", "", "text-format ModelServerConfig with the list of models"),
    Flag("model_config_file_poll_wait_seconds", 0, "read model_config_file again so often; 0 for once"),
    Flag("model_name", "default", "name of the only model, without model_config_file"),
    Flag("model_base_path", "", "folder with the versions of the only model, without model_config_file"),
    Flag("num_load_threads", 0, "versions that load at the same time; 0 means one"),
    Flag("num_unload_threads", 0, "versions that unload at the same time; 0 means one"),
    Flag("max_num_load_retries", 5, "attempts to load a version after one that failed; negative for ever"),
    Flag("load_retry_interval_micros", 60_000_000, "pause between attempts to load a version"),
    Flag("file_system_poll_wait_seconds", 1, "look for new versions so often; 0 for once, negative for never"),
    Flag("allow_version_labels_for_unavailable_models", False, "labels may name versions that are not there yet"),
    Flag("tensorflow_session_parallelism", 0, "threads within and between operations of a TensorFlow session"),
    Flag("tensorflow_intra_op_parallelism", 0, "threads within an operation"),
    Flag("tensorflow_inter_op_parallelism", 0, "operations at the same time"),
    Flag("tensorflow_session_config_file", "", "text-format ConfigProto for TensorFlow's sessions"),
    Flag("platform_config_file", "", "text-format PlatformConfigMap, instead of the flags about TensorFlow"),
    Flag("per_process_gpu_memory_fraction", 0.0, "share of a GPU's memory for TensorFlow; 0 lets it decide"),
    Flag("saved_model_tags", "serve", "tags of the meta graph to load, separated by commas"),
    Flag("enable_model_warmup", True, "replay assets.extra/tf_serving_warmup_requests before a version serves"),
    Flag("num_request_iterations_for_warmup", 0, "replay each warm-up request so often; 0 means once"),
    Flag("monitoring_config_file", "", "text-format MonitoringConfig with the path of the Prometheus metrics"),
    Flag("enable_serialization_as_tensor_content", False, "numbers in answers to Predict as bytes in tensor_content"),
    Flag("rest_api_enable_cors_support", False, "let pages of any origin read REST answers"),
    Flag("version", False, "say which version this is, and end"),
    _idle("rest_api_num_threads", 0, "requests are served by the data plane's own threads, as many as it needs"),
    _idle("grpc_max_threads", 0, "requests are served by the data plane's own threads, as many as it needs"),
    _idle("grpc_channel_arguments", "", "they are settings of the gRPC C++ library, which does not serve here"),
    _idle("flush_filesystem_caches", True, "no file stays open or mapped after a load for the sake of a cache"),
    _idle("enable_signature_method_name_check", False, "classify and regress are checked by what a signature holds"),
    _idle("remove_unused_fields_from_bundle_metagraph", True, "the graph's description is not kept after a load"),
    _idle("enable_grpc_healthcheck_service", False, "the gRPC health check is always there; so is /v2/health/ready"),
    _idle("enable_profiler", True, "there is no TensorFlow profiler service here"),
    _idle("thread_pool_factory_config_file", "", "threads of a session come from TensorFlow's own pools"),
    _idle("num_tflite_pools", 0, "TensorFlow Lite models are not served"),
    _idle("num_tflite_interpreters_per_pool", 1, "TensorFlow Lite models are not served"),
    _idle("skip_initialize_tpu", False, "TPUs are not used"),
    _idle("xla_cpu_compilation_enabled", False, "TensorFlow decides; see TF_XLA_FLAGS"),
    _idle("xla_gpu_compilation_enabled", False, "TensorFlow decides; see TF_XLA_FLAGS"),
    _refused("use_alts_credentials", False, "clients would be served without ALTS: put a proxy in front"),
    _refused("prefer_tflite_model", False, "TensorFlow Lite is not served: leave it out to serve saved_model.pb"),
    _refused("mixed_precision", "", "answers would not have the precision asked for: convert the model instead"),
)


def flags_help() -> str:
    """The table for people: each flag with its default and what becomes of it."""
    groups = {Fate.USED: "Flags:", Fate.IDLE: "Accepted without effect:", Fate.REFUSED: "Refused:"}
    lines = ["Usage: tidegate model-server --model_base_path=FOLDER | --model_config_file=FILE [--FLAG=VALUE ...]"]
    for fate, title in groups.items():
        lines += ["", title]
        lines += [f"  --{flag.name}={_shown(flag.default)}  {flag.note}" for flag in FLAGS if flag.fate is fate]
    return "\n".join(lines)


def _shown(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
