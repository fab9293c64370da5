"""The engine's config as the data plane's own settings, and contract values as the plane's.

The engine hands in its config; the front hands in signatures and batching when it publishes a version.
"""

from __future__ import annotations

import json
from pathlib import Path

import tidegate_native as native

from tidegate_serving.config import BatchingConfig, EngineConfig
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.plain_file import read_small
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.platforms.example import default_array
from tidegate_serving.platforms.loader import DescribesItself, LoadedVersion

STANDARD_ERROR = Path("-")
_LEAST_SALT = 16
PemTexts = tuple[bytes, bytes, bytes | None, bool]
"""Certificate, key, and the authority of clients' certificates; whether gRPC alone shows it."""
AccessLines = tuple[list[tuple[str, str, str, list[str], float | None]], list[tuple[str, str, list[str]]]]
"""Tokens (SHA-256, name, role, patterns, end in Unix seconds) and certificates (subject, role, patterns)."""


def plane_settings(
    config: EngineConfig, tls: PemTexts | None = None, access: AccessLines | None = None
) -> native.Settings:
    """How the plane listens, who may ask, and what it bounds."""
    return native.Settings(
        grpc_address=config.grpc_address or None,
        rest_address=config.rest_address or None,
        grpc_socket_path=config.grpc_socket_path,
        metrics_path=config.metrics_path or None,
        starting=True,
        rest_cors=config.rest_cors,
        tensor_content=config.tensor_content,
        shared_memory=config.shared_memory,
        tls=tls,
        access=access,
        access_log=_access_log(config),
        trace_sampling_rate=config.trace_sampling_rate if config.trace_endpoint else None,
        io_threads=config.io_threads,
        max_message_bytes=config.max_message_bytes,
        request_memory_bytes=config.request_memory,
        max_connections=config.max_connections,
        header_timeout_ms=_ms(config.header_seconds),
        idle_timeout_ms=_ms(config.idle_seconds),
        keepalive_ms=_ms(config.keepalive_seconds),
        write_timeout_ms=_ms(config.write_seconds),
        request_timeout_ms=int(config.request_timeout_seconds * 1000),
        event_keepalive_ms=_ms(config.event_keepalive_seconds),
        log_path=config.log_path,
        prediction_log_path=config.prediction_log_path,
        log_columns=config.log_columns,
        log_salt=_salt(config.log_salt_file),
        log_block_rows=config.log_block_rows,
        log_block_interval_ms=max(1, int(config.log_block_seconds * 1000)),
        log_buffer_bytes=config.log_buffer_bytes,
    )


def _access_log(config: EngineConfig) -> tuple[Path | None, float, float, int] | None:
    if config.access_log_path is None:
        return None
    path = None if config.access_log_path == STANDARD_ERROR else config.access_log_path
    refused = config.access_log_refused_per_second
    return path, config.access_log_sampling_rate, config.slow_request_seconds, refused


def _salt(path: Path | None) -> bytes:
    if path is None:
        return b""
    try:
        salt = read_small(path)
    except OSError as error:
        raise InvalidInput(f"log_salt_file {path} cannot be read ({error}): mend the path or its rights") from error
    if len(salt) < _LEAST_SALT:
        raise InvalidInput(
            f"log_salt_file {path} holds {len(salt)} bytes, which can be guessed: give it {_LEAST_SALT} random ones or "
            "more"
        )
    return salt


def _ms(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def plane_batching(config: BatchingConfig) -> native.Batching:
    """When a batch closes."""
    return native.Batching(
        max_batch_rows=config.max_batch_rows,
        timeout_us=config.timeout_us,
        max_queued_rows=config.max_queued_rows,
        waits_when_full=config.when_full == "wait",
        concurrency=config.concurrency,
        allowed_batch_sizes=config.allowed_batch_sizes,
        pad_variable_length_inputs=config.pad_variable_length_inputs,
        priority_levels=config.priority_levels,
        default_priority_level=config.default_priority_level,
    )


def plane_signature(name: str, signature: Signature, event_time: str | None = None) -> native.Signature:
    """One way to call a version; `event_time` names the input with the time of the event, by which rows are logged."""
    return native.Signature(
        name=name,
        method_name=signature.method_name,
        inputs=[_spec(spec) for spec in signature.inputs],
        outputs=[_spec(spec) for spec in signature.outputs],
        first_axis=signature.first_axis.value,
        defaults={name: default_array(signature, name) for name in signature.defaults} or None,
        event_time=event_time,
        streaming=signature.streaming,
        sequences=signature.sequences,
        schema=_schema(signature),
    )


def _schema(signature: Signature) -> tuple[str, str] | None:
    schema = signature.schema
    return None if schema is None else (json.dumps(dict(schema.request)), json.dumps(dict(schema.response)))


def plane_description(loaded: LoadedVersion) -> tuple[bytes, bytes] | None:
    """How the model itself describes its signatures, as a message and as JSON in TensorFlow Serving's form; None where
    the plane is to describe those that it was given.
    """
    if not isinstance(loaded.servable, DescribesItself):
        return None
    from google.protobuf.json_format import MessageToDict

    described = loaded.servable.signature_defs()
    as_json = MessageToDict(described, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    text = json.dumps(as_json["signature_def"], ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return described.SerializeToString(deterministic=True), text.encode()


def _spec(spec: TensorSpec) -> native.TensorSpec:
    return native.TensorSpec(name=spec.name, dtype=spec.dtype, shape=list(spec.shape), unknown_rank=spec.unknown_rank)
