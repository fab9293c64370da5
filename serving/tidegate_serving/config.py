"""How an engine is set up: one frozen, typed value from a TOML file, `TIDEGATE_*` variables and overrides.

The command line and embedding programs make an `EngineConfig`; `engine` hands its parts to the rooms.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate_serving.config_values import convert, nearest
from tidegate_serving.contract.errors import InvalidInput, NotFound

ENVIRONMENT_PREFIX = "TIDEGATE_"


@dataclass(frozen=True, slots=True)
class BatchingConfig:
    """When a batch closes and how long its queue may grow.

    max_batch_rows: a batch closes at this many rows.
    timeout_us: above zero, a batch waits this many microseconds for more rows; 0 closes it when the sockets run dry.
    max_queued_rows: beyond this many waiting rows a request is refused with RESOURCE_EXHAUSTED.
    concurrency: executor threads per version.
    """

    max_batch_rows: int = 1024
    timeout_us: int = 0
    max_queued_rows: int = 16384
    concurrency: int = 1

    def __post_init__(self) -> None:
        _at_least("max_batch_rows", self.max_batch_rows, 1)
        _at_least("timeout_us", self.timeout_us, 0)
        _at_least("max_queued_rows", self.max_queued_rows, 1)
        _at_least("concurrency", self.concurrency, 1)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What one servable of the repository wants differently.

    versions: `latest:N`, `all`, or `specific:1,4`; for servables that the file system source serves.
    labels: label to version number; a label waits until its version is AVAILABLE.
    batching: instead of the engine's defaults.
    log_sampling_rate: instead of the engine's.
    """

    versions: str | None = None
    labels: Mapping[str, int] = field(default_factory=dict)
    batching: BatchingConfig | None = None
    log_sampling_rate: float | None = None


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything that an engine needs to know. Addresses are `host:port`, port 0 for any free one.

    grpc_address: TensorFlow Serving's gRPC door.
    rest_address: the REST door, metrics and health; empty for none.
    control_address: the RPC Source's port, without authentication and therefore on loopback; empty for none.
    repository: a model repository (ROOT/NAME/VERSION) that the file system source serves; None for none.
    versions: which versions of the repository's servables: `latest:N`, `all`, or `specific:1,4`.
    poll_seconds: how often the repository is looked at; 0 looks once.
    directories: version directories that are served as long as the engine runs.
    roots: folders under which the RPC Source may load versions.
    state_directory: where the RPC Source keeps what it was told; None forgets it at the end.
    trusted_keys: public key files (PEM) of the validators whose verdicts count.
    allow_unverified: serve versions without a verdict; for development.
    allow_pickle: load pickle files, which can run any code.
    load_threads: versions that load at the same time.
    memory_limit_bytes: budget for all loaded versions by estimate; 0 for none.
    policy: what a version change prefers, `availability` or `resources`.
    retry_first_seconds: pause after the first failed load; it doubles with each further one.
    retry_most_seconds: the longest pause between load attempts.
    log_path: root folder of the inference log; None for none.
    log_sampling_rate: share of requests that are logged, 0 to 1.
    log_block_rows: rows after which a log block is written.
    log_block_seconds: longest time that a record waits for its block.
    log_buffer_bytes: what may wait to be written; beyond it records are dropped and counted.
    io_threads: threads that serve the sockets.
    max_message_bytes: largest request.
    max_connections: connections beyond this many are refused.
    request_timeout_seconds: for requests without a deadline of their own.
    start_seconds: how long start waits for the first versions before it says not ready.
    drain_seconds: how long a stopping engine waits for accepted requests.
    ready_file: gets the addresses as JSON once the engine is up; None for none.
    batching: defaults for every servable.
    models: what single servables want differently, by name.
    """

    grpc_address: str = "127.0.0.1:8500"
    rest_address: str = "127.0.0.1:8501"
    control_address: str = "127.0.0.1:8502"
    repository: Path | None = None
    versions: str = "latest:1"
    poll_seconds: float = 1.0
    directories: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()
    state_directory: Path | None = None
    trusted_keys: tuple[Path, ...] = ()
    allow_unverified: bool = False
    allow_pickle: bool = False
    load_threads: int = 2
    memory_limit_bytes: int = 0
    policy: str = "availability"
    retry_first_seconds: float = 1.0
    retry_most_seconds: float = 600.0
    log_path: Path | None = None
    log_sampling_rate: float = 1.0
    log_block_rows: int = 16384
    log_block_seconds: float = 1.0
    log_buffer_bytes: int = 134217728
    io_threads: int = 1
    max_message_bytes: int = 67108864
    max_connections: int = 4096
    request_timeout_seconds: float = 30.0
    start_seconds: float = 120.0
    drain_seconds: float = 30.0
    ready_file: Path | None = None
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    models: Mapping[str, ModelConfig] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.log_sampling_rate <= 1:
            raise InvalidInput(f"log_sampling_rate is {self.log_sampling_rate}: use a share from 0 to 1")
        if self.control_address and not _is_loopback(self.control_address):
            raise InvalidInput(
                f"control_address {self.control_address} is not on loopback, and the control port asks nobody who "
                "they are: use 127.0.0.1, and a tunnel from elsewhere"
            )
        if self.policy not in ("availability", "resources"):
            raise InvalidInput(f"policy is {self.policy!r}: use availability or resources")
        for name in ("load_threads", "io_threads", "log_block_rows", "max_message_bytes", "max_connections"):
            _at_least(name, getattr(self, name), 1)
        for name in ("poll_seconds", "memory_limit_bytes", "drain_seconds", "start_seconds", "log_buffer_bytes"):
            _at_least(name, getattr(self, name), 0)

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> EngineConfig:
        """The config from a TOML file, then variables such as `TIDEGATE_GRPC_ADDRESS`, then overrides; later ones win.

        `env` is `os.environ` where it is None. Lists in variables are separated by the system's path separator.
        Raises NotFound for a missing file, InvalidInput for an unknown key, naming the nearest one, or a bad value.
        """
        values: dict[str, Any] = {}
        if path is not None:
            values.update(_read_toml(path))
        values.update(_from_environment(os.environ if env is None else env))
        values.update({key: value for key, value in (overrides or {}).items() if value is not None})
        made: EngineConfig = convert(cls, values, where=str(path) if path else "the engine's config")
        return made


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"config file {path} is missing: write one, or leave out --config") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"config file {path} is not TOML: {error}") from error


def _from_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Known keys; a variable that looks like a misspelt one is refused, others belong to other programs."""
    known = {field.name for field in dataclasses.fields(EngineConfig)} - {"batching", "models"}
    found: dict[str, str] = {}
    for variable, value in env.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        key = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if key in known:
            found[key] = value
        elif near := nearest(key, known, cutoff=0.8):
            raise InvalidInput(f"variable {variable} is unknown: did you mean {ENVIRONMENT_PREFIX}{near.upper()}?")
    return found


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1") or host.startswith("127.")


def _at_least(name: str, value: float, least: float) -> None:
    if value < least:
        raise InvalidInput(f"{name} is {value}: use {least} or more")
