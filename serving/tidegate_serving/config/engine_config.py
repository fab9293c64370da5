"""How an engine is set up: one frozen, typed value from a TOML file, `TIDEGATE_*` variables and overrides.

The command line and embedding programs make an `EngineConfig`; `engine` hands its parts to the rooms.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate_serving.config.addresses import ADDRESSES, check_address, is_url, is_url_path
from tidegate_serving.config.fleet import IN_VARIABLES, FleetConfig
from tidegate_serving.config.layers import layered
from tidegate_serving.config.machine_memory import usable_memory
from tidegate_serving.config.model import (
    ROWS,
    SECONDS,
    SHARE,
    THREADS,
    BatchingConfig,
    ModelConfig,
    check_isolation,
    check_policy,
)
from tidegate_serving.connection import is_loopback
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.log_record import COLUMN_RULES, HASH, INPUT_PREFIX, OUTPUT_PREFIX
from tidegate_serving.contract.servable import check_name
from tidegate_serving.sources.file_system.version_policy import parse_version_policy
from tidegate_serving.typed_config import NOT_A_KEY, check_bounds, keys, read_config, within

__all__ = ["BatchingConfig", "EngineConfig", "ModelConfig"]
TABLES = ("batching", "models", "platforms", "sources", "push_stores", "device_limits_bytes", "log_columns", "fleet")
Setting = str | int | float | bool
MESSAGE_BYTES = (1, 2**40)
CONNECTIONS = (1, 2**31 - 1)
LINES = (0, 2**31 - 1)
RETRIES = (-1, 2**31 - 1)
SOME_SECONDS = (0.001, 10**9)
BYTES = (0, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything that an engine needs to know. Addresses are `host:port`, port 0 for any free one.

    grpc_address: TensorFlow Serving's gRPC endpoint; empty for none.
    grpc_socket_path: a Unix socket that leads through the gRPC endpoint too; None for none.
    rest_address: the REST endpoint, metrics and health; empty for none.
    metrics_path: one more path at which the REST endpoint answers with metrics; empty for `/metrics` alone. With it,
        the metrics also have TensorFlow Serving's names.
    rest_cors: pages of any origin may read REST answers (TensorFlow Serving's CORS support).
    tensor_content: Predict's answers over gRPC have numbers as bytes in `tensor_content` (TensorFlow Serving's
        `enable_serialization_as_tensor_content`), which are less work where they are many whole numbers.
    shared_memory: clients may register shared memory of this machine that belongs to the engine's user (Triton's
        extension).
    control_address: the RPC Source's port; beyond loopback it needs TLS and an access file. Empty for none.
    control_certificate: the certificate (PEM) that the control port shows; None for no TLS.
    control_key: its private key (PEM).
    control_client_ca: who signs clients' certificates (PEM); then each client needs one. None asks for none.
    control_access: the access file, tokens and client certificates with roles; None lets all of this machine in.
    data_certificate: the certificate (PEM) that gRPC and REST endpoint show; None for no TLS.
    data_key: its private key (PEM).
    data_client_ca: who signs clients' certificates (PEM); then each client needs one. None asks for none.
    grpc_ssl_config: TensorFlow Serving's SSLConfig in text format in place of these three: the gRPC endpoint alone
        shows what is in it, and REST stays in plain text. None for none.
    data_access: the access file of both endpoints, which asks for role `predict`; None lets everybody ask.
    repository: a model repository (ROOT/NAME/VERSION) that the file system source serves; None for none.
    versions: which versions of the repository's servables: `latest:N`, `all`, `specific:1,4` or `none`.
    versions_always_present: a servable whose last version directory vanished keeps what it has.
    poll_seconds: how often each servable's folder is looked at; 0 looks once.
    quiet_seconds: a directory without a manifest counts as complete once nothing in it changed for so long.
    directories: version directories that are served as long as the engine runs.
    roots: folders under which the RPC Source may load versions.
    state_directory: where the engine keeps desired state, overrides, admissions and journal; None forgets them.
    trusted_keys: whose verdicts count: public key files (PEM) of validators, or key rings that `tidegate keys` made.
    override_policy: a policy file whose [[override]] rules say who may override which gate; None lets none.
    allow_unverified: serve versions without a verdict; for development.
    allow_unpublished: serve directories without a manifest, as TensorFlow Serving does; needs allow_unverified.
    allow_reload_requests: whether clients may replace the list of models (`HandleReloadConfigRequest`); None lets them
        where grpc_address is on loopback.
    own_batching_files: whether models in such a list are batched by batching_params.pbtxt of their newest version,
        where that lies there, as TensorFlow Serving's flag enable_per_model_batching_parameters says.
    labels_may_wait: whether labels in such a list may name versions that are not there yet.
    follow_stable: whether requests without version and label follow label `stable`; if not, that of pushed models alone
        does so, and all others go to the newest available version, as in TensorFlow Serving.
    allow_pickle: load pickle files, which can run any code.
    warm_up: whether the requests of a version's warm-up file are run before it serves.
    warm_up_iterations: how often each of them is run.
    warm_up_batch_sizes: numbers of rows to which each of them, and the manifest's example, is also stretched.
    isolation: where models run: `engine`, in the engine's process; `pool`, in worker processes that versions share;
        `own`, each version in worker processes of its own; `auto`, what runs Python code in the pool and all else in
        the engine. A version has `concurrency` workers, and processes that die are replaced.
    pool_processes: worker processes that versions share, for each Python, set of processors and `call_seconds`; 0 for
        as many as there are processors, but 4 at most.
    worker_memory_bytes: what one worker process may hold with those that it started; beyond it it is ended and
        replaced, and versions that shared it get processes of their own. 0 for three quarters of the memory that this
        process may use.
    worker_output_bytes: what one worker process may print in a second, on average, with those that it started; it may
        come at once where nothing was printed for a while. Further lines are left out, and the log says how many.
        0 for no such limit.
    call_seconds: a worker process in which a model's call takes longer is ended and replaced, and the batch fails; of a
        stream, a call makes one message. 0 for no such limit.
    load_threads: versions that load at the same time.
    initial_load_threads: versions that load at the same time at the start, and unload at the end, while nothing is
        served; 0 for four per processor.
    unload_threads: versions that unload at the same time while others serve.
    load_seconds: a version that loads or unloads for longer does not count as one of these any more: where others wait,
        one of them begins beside it. 0 for no such limit.
    memory_limit_bytes: budget for all loaded versions by estimate, then by measured size; 0 for none.
    device_limits_bytes: the same for other devices, by name such as "gpu:0".
    keep_previous: keeps the version that served before loaded, so that a rollback takes effect at once.
    policy: what a version change prefers, `availability` or `resources`.
    retry_first_seconds: pause after the first failed load; it doubles with each further one.
    retry_most_seconds: the longest pause between load attempts.
    load_retries: attempts to load a version after a first one that failed; -1 for ever.
    log_path: root folder of the inference log; None for none.
    prediction_log_path: root folder of the same as TensorFlow Serving's PredictionLogs (TFRecord); None for none.
    log_columns: by the log's column, such as `"in.email"`, what becomes of it before anything is written: `hash`, so
        that equal values stay equal and nobody without the salt can try values out, or `omit`. Request ids and times
        stay.
    log_salt_file: the secret that keys these hashes, 16 bytes or more; the same file on all engines whose logs are
        joined.
    log_sampling_rate: share of requests that are logged, 0 to 1.
    log_block_rows: rows after which a log block is written.
    log_block_seconds: longest time that a record waits for its block.
    log_buffer_bytes: what may wait to be written, of one model three quarters of it; beyond it records are dropped and
        counted.
    access_log_path: a file that gets a line of JSON for each request, or `-` for standard error; None for none.
    access_log_sampling_rate: share of requests that are in it, 0 to 1.
    access_log_refused_per_second: lines that requests of one address have in it a second for which no model ran; one
        more counts those beyond it. 0 for all.
    slow_request_seconds: requests that take so long from their last byte to their answer are in it whatever the rate
        is, marked as slow; 0 for no such rule.
    trace_endpoint: the URL of an OpenTelemetry collector (OTLP over HTTP) that gets the requests' spans, such as
        http://127.0.0.1:4318/v1/traces; empty for none. Needs the extra `otel`.
    trace_sampling_rate: share of requests whose spans it gets, 0 to 1, where a request's caller has not decided that.
    io_threads: threads that serve the sockets.
    max_message_bytes: largest request.
    request_memory_bytes: what all requests may hold, from their bodies, and gRPC calls that stay open, to what models
        give back and their answers; 0 for a quarter of the memory that this process may use.
    max_connections: connections beyond this many: one that has asked nothing for a four-hundredth of `header_seconds`,
        at once where there are more than 16 such, or has had no answer due for a quarter of it, is closed, else the
        new one may only ask for the engine's health.
    header_seconds: within this time a request's head, or the beginning of an HTTP/2 connection, has to be there.
    idle_seconds: a connection without a request for so long is closed; longer than load balancers keep theirs.
    keepalive_seconds: a silent gRPC connection is pinged after this time, and closed where nothing comes in as long.
    write_seconds: a client that takes nothing of its answer for so long is given up.
    stuck_seconds: a model's call that runs for so long, and for ten times the usual, counts as stuck.
    request_timeout_seconds: for requests without a deadline of their own.
    event_keepalive_seconds: a stream of server-sent events without a message for so long sends a comment.
    start_seconds: how long start waits for the first versions before it says not ready.
    drain_seconds: how long a stopping engine waits for accepted requests.
    ready_file: gets the addresses as JSON once the engine is up; None for none.
    batching: defaults for every servable.
    models: what single servables want differently, by name.
    platforms: settings of single platforms, by platform and key.
    sources: further sources, such as `object_store` and `mlflow`, each by its name with a table of its own.
    push_stores: object stores from which versions may be pushed by address, each by a name with a table of its own.
    fleet: the fleet of engines that this one is a node of.
    usable_at_start: bytes that the process might use when the engine started, for request_memory. Not a key of its own.
    origins: where values came from, by dotted key; what is not named is a default. Not a key of its own.
    """

    grpc_address: str = "127.0.0.1:8500"
    grpc_socket_path: Path | None = None
    metrics_path: str = ""
    rest_address: str = "127.0.0.1:8501"
    rest_cors: bool = False
    tensor_content: bool = False
    shared_memory: bool = False
    control_address: str = "127.0.0.1:8502"
    control_certificate: Path | None = None
    control_key: Path | None = None
    control_client_ca: Path | None = None
    control_access: Path | None = None
    data_certificate: Path | None = None
    data_key: Path | None = None
    data_client_ca: Path | None = None
    grpc_ssl_config: Path | None = None
    data_access: Path | None = None
    repository: Path | None = None
    versions: str = "latest:1"
    versions_always_present: bool = False
    poll_seconds: float = within(SECONDS, 1.0)
    quiet_seconds: float = within(SECONDS, 2.0)
    directories: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()
    state_directory: Path | None = None
    trusted_keys: tuple[Path, ...] = ()
    override_policy: Path | None = None
    allow_unverified: bool = False
    allow_unpublished: bool = False
    allow_reload_requests: bool | None = None
    own_batching_files: bool = False
    labels_may_wait: bool = False
    follow_stable: bool = True
    allow_pickle: bool = False
    warm_up: bool = True
    warm_up_iterations: int = within((1, 1_000_000), 1)
    warm_up_batch_sizes: tuple[int, ...] = within(ROWS, ())
    isolation: str = "auto"
    pool_processes: int = within((0, THREADS[1]), 0)
    worker_memory_bytes: int = within(BYTES, 0)
    worker_output_bytes: int = within(BYTES, 1 << 16)
    call_seconds: float = within(SECONDS, 600.0)
    load_threads: int = within(THREADS, 2)
    initial_load_threads: int = within((0, THREADS[1]), 0)
    unload_threads: int = within(THREADS, 1)
    load_seconds: float = within(SECONDS, 60.0)
    memory_limit_bytes: int = within(BYTES, 0)
    device_limits_bytes: Mapping[str, int] = within(BYTES, {})
    keep_previous: bool = False
    policy: str = "availability"
    retry_first_seconds: float = within(SOME_SECONDS, 1.0)
    retry_most_seconds: float = within(SOME_SECONDS, 600.0)
    load_retries: int = within(RETRIES, -1)
    log_path: Path | None = None
    prediction_log_path: Path | None = None
    log_columns: Mapping[str, str] = field(default_factory=dict)
    log_salt_file: Path | None = None
    log_sampling_rate: float = within(SHARE, 1.0)
    log_block_rows: int = within(ROWS, 16384)
    log_block_seconds: float = within(SOME_SECONDS, 1.0)
    log_buffer_bytes: int = within(BYTES, 134217728)
    access_log_path: Path | None = None
    access_log_sampling_rate: float = within(SHARE, 1.0)
    access_log_refused_per_second: int = within(LINES, 100)
    slow_request_seconds: float = within(SECONDS, 0.0)
    trace_endpoint: str = ""
    trace_sampling_rate: float = within(SHARE, 1.0)
    io_threads: int = within(THREADS, 1)
    max_message_bytes: int = within(MESSAGE_BYTES, 67108864)
    request_memory_bytes: int = within(BYTES, 0)
    max_connections: int = within(CONNECTIONS, 4096)
    header_seconds: float = within(SOME_SECONDS, 10.0)
    idle_seconds: float = within(SOME_SECONDS, 620.0)
    keepalive_seconds: float = within(SOME_SECONDS, 30.0)
    write_seconds: float = within(SOME_SECONDS, 30.0)
    stuck_seconds: float = within(SOME_SECONDS, 30.0)
    request_timeout_seconds: float = within(SOME_SECONDS, 30.0)
    event_keepalive_seconds: float = within(SOME_SECONDS, 15.0)
    start_seconds: float = within(SECONDS, 120.0)
    drain_seconds: float = within(SECONDS, 30.0)
    ready_file: Path | None = None
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    platforms: Mapping[str, Mapping[str, Setting]] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    push_stores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fleet: FleetConfig = field(default_factory=FleetConfig)
    usable_at_start: int = field(default_factory=usable_memory, compare=False, repr=False, metadata=NOT_A_KEY)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False, metadata=NOT_A_KEY)

    def __post_init__(self) -> None:
        check_bounds(self)
        for name in ADDRESSES:
            check_address(name, getattr(self, name))
        if self.metrics_path and not is_url_path(self.metrics_path):
            raise InvalidInput(f"metrics_path is {self.metrics_path!r}: write a path such as /monitoring/metrics")
        self._check_control()
        self._check_data()
        self._check_telemetry()
        self._check_fleet()
        if self.allow_unpublished and not self.allow_unverified:
            raise InvalidInput(
                "allow_unpublished is set without allow_unverified: a directory without a manifest can have no "
                "verdict, so set both, or publish with `tidegate publish`"
            )
        check_policy(self.policy)
        check_isolation(self.isolation)
        parse_version_policy(self.versions)
        self._check_log()
        for name, model in self.models.items():
            check_name(name)
            self._check_workers(name, model)

    def _check_workers(self, name: str, model: ModelConfig) -> None:
        """What is said of workers needs some."""
        for key in ("interpreter", "processors"):
            if getattr(model, key) and self.isolation_of(name) == "engine":
                raise InvalidInput(
                    f"models.{name}.{key} is set, but {name} runs in the engine's own process: set "
                    f'models.{name}.isolation to "pool" or "own" too, or leave {key} out'
                )

    def _check_control(self) -> None:
        """Nobody beyond this machine is listened to who is not known, nor in plain text."""
        self._check_pair("control_certificate", "control_key")
        if self.control_client_ca is not None and (self.control_certificate is None or self.control_access is None):
            raise InvalidInput(
                "control_client_ca is set, but not control_certificate and control_access: client certificates need "
                "TLS, and a role in the access file"
            )
        needed = ("control_certificate", "control_key", "control_access")
        missing = [key for key in needed if getattr(self, key) is None]
        if self.control_address and missing and not is_loopback(self.control_address):
            raise InvalidInput(
                f"control_address {self.control_address} is not on loopback, and nobody is let in from elsewhere "
                f"without TLS and a role: set {', '.join(missing)} (`tidegate token new NAME --file FILE` makes an "
                "access file), or use 127.0.0.1"
            )

    def _check_data(self) -> None:
        self._check_pair("data_certificate", "data_key")
        if self.grpc_ssl_config is not None and self.data_certificate is not None:
            raise InvalidInput(
                "grpc_ssl_config and data_certificate are both set: keep data_certificate, which is for REST too, or "
                "grpc_ssl_config"
            )
        if self.data_client_ca is not None and self.data_certificate is None:
            raise InvalidInput(
                "data_client_ca is set, but not data_certificate: client certificates need TLS, so set "
                "data_certificate and data_key"
            )

    def _check_telemetry(self) -> None:
        if self.slow_request_seconds and self.access_log_path is None:
            raise InvalidInput(
                f"slow_request_seconds is {self.slow_request_seconds:g} without access_log_path, where slow requests "
                "are told: set both, and access_log_sampling_rate to 0 for slow ones alone"
            )
        if self.trace_endpoint and not is_url(self.trace_endpoint):
            raise InvalidInput(
                f"trace_endpoint is {self.trace_endpoint!r}: write a URL such as http://127.0.0.1:4318/v1/traces"
            )

    def _check_fleet(self) -> None:
        if self.fleet.etcd and not self.control_address:
            raise InvalidInput(
                "fleet.etcd is set without control_address: a node is told over it what to serve, set both"
            )

    def check_node(self) -> None:
        """InvalidInput for an engine that would be a node at an address where nobody reaches it. Routers and
        controllers, which read the same keys, may listen there."""
        for name in ADDRESSES if self.fleet.etcd and not self.fleet.host else ():
            if (address := getattr(self, name)).rpartition(":")[0] in ("0.0.0.0", "[::]"):
                raise InvalidInput(
                    f"fleet.host is empty and {name} is {address}, at which nobody else reaches this engine: set "
                    "fleet.host to its name or address"
                )

    def _check_log(self) -> None:
        if self.prediction_log_path is not None and self.log_path is None:
            raise InvalidInput("prediction_log_path is set without log_path: set both, it is written beside that log")
        if self.prediction_log_path is not None and self.log_columns:
            raise InvalidInput(
                f"log_columns keeps {', '.join(self.log_columns)} out of the log, and prediction_log_path writes "
                "requests whole: leave one of the two out"
            )
        for column, rule in self.log_columns.items():
            if not column.startswith((INPUT_PREFIX, OUTPUT_PREFIX)):
                raise InvalidInput(
                    f'log_columns names {column!r}: name an input, such as "in.email", or an output, such as "out.text"'
                )
            if rule not in COLUMN_RULES:
                raise InvalidInput(f"log_columns.{column} is {rule!r}: use one of {', '.join(COLUMN_RULES)}")
        if HASH in self.log_columns.values() and self.log_salt_file is None:
            raise InvalidInput(
                "log_columns has columns to hash, and log_salt_file is not set: name a file of random bytes "
                "(`head -c 32 /dev/urandom > salt`)"
            )

    def _check_pair(self, certificate: str, key: str) -> None:
        if (getattr(self, certificate) is None) != (getattr(self, key) is None):
            given, lacks = (certificate, key)[:: -1 if getattr(self, certificate) is None else 1]
            raise InvalidInput(f"{given} is set without {lacks}: set both, or neither")

    @property
    def request_memory(self) -> int:
        """Bytes that all requests may hold, chosen once: a control group that is resized later changes nothing."""
        return self.request_memory_bytes or self.usable_at_start // 4

    @property
    def worker_memory(self) -> int:
        """Bytes that a worker process which starts now may hold."""
        return self.worker_memory_bytes or usable_memory() // 4 * 3

    def isolation_of(self, servable: str) -> str:
        """Where the versions of a servable run: one of `ISOLATIONS`. What is said of workers asks for some."""
        model = self.models.get(servable, ModelConfig())
        isolation = self.isolation if model.isolation is None else model.isolation
        return "pool" if isolation == "auto" and (model.interpreter or model.processors) else isolation

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> EngineConfig:
        """The config from a TOML file, then variables such as `TIDEGATE_GRPC_ADDRESS`, then overrides; later ones win.

        `env` is `os.environ` where it is None. Lists in variables are separated by the system's path separator. Of the
        table `[fleet]` variables such as `TIDEGATE_FLEET_NODE` have what differs from node to node.
        Raises NotFound for a missing file, InvalidInput for an unknown key, naming the nearest one, or a bad value.
        """
        known = (set(keys(cls)) - set(TABLES)) | {f"fleet_{key}" for key in IN_VARIABLES}
        fields = {"fleet": keys(FleetConfig), "batching": keys(BatchingConfig)}
        in_file = {f"{table}_{key}": table for table, names in fields.items() for key in names}
        in_file |= {table: table for table in TABLES}
        values, origins = layered(path, os.environ if env is None else env, overrides or {}, known, in_file)
        for key in IN_VARIABLES:
            said, table = values.pop(f"fleet_{key}", None), values.get("fleet", {})
            if said is not None and isinstance(table, Mapping):  # what is no table is refused below
                values["fleet"] = {**table, key: said}
                origins[f"fleet.{key}"] = origins.pop(f"fleet_{key}")
        made = read_config(cls, values, str(path) if path else "the engine's config", texts=True)
        return dataclasses.replace(made, origins=origins)
