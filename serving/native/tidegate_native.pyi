"""The native data plane: what happens per request, behind four calls down and four callbacks up.

Private to `tidegate_serving.requests`, what is about workers to `tidegate_serving.workers`, the two functions to
`tidegate_serving.low_priority`. Everything here is safe to
call from any thread; the I/O threads never take the GIL. dtype names are those of numpy (`bool`, `int8` to `int64`,
`uint8` to `uint64`, `float16`, `float32`, `float64`) and `string`, whose elements reach Python as `bytes` in object
arrays.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, final

import numpy as np

__all__ = [
    "Arrived",
    "Batch",
    "Batching",
    "DataPlane",
    "ExitGuard",
    "IdleWorkers",
    "PendingPrediction",
    "PredictError",
    "PredictionStream",
    "Publish",
    "Result",
    "Retire",
    "Router",
    "SetBatching",
    "SetDefault",
    "SetDisabled",
    "SetLabels",
    "SetLog",
    "SetShadow",
    "SetSplit",
    "Settings",
    "Signature",
    "TensorSpec",
    "TracedRequest",
    "WorkerLine",
    "__version__",
    "enter_low_priority",
    "file_sha256",
]

__version__: str

def file_sha256(path: str | PathLike[str]) -> tuple[int, str]:
    """Size in bytes and SHA-256 (lower-case hexadecimal) of a file, read without the GIL by a thread of idle priority.

    On a machine that is never idle the thread gives up after 2 s and 1 s more per 100 MB, and one of low priority goes
    on. Raises OSError.
    """

def enter_low_priority() -> None:
    """Has the calling thread give its processor up at once to any that wakes, at its full share otherwise.

    Threads that it starts are as any. Linux before 6.12 and other systems do not know this: there nothing changes.
    """

_Tls = tuple[bytes, bytes, bytes | None, bool]
"""The server's certificate, its key, and who signs the certificates that clients have to show, or None (PEM); whether
the gRPC endpoint alone shows it, and REST stays in plain text."""
_NodeTls = tuple[bytes, tuple[bytes, bytes] | None, str | None]
"""Who signs nodes' certificates, certificate and key of the router, and the name in those of nodes; PEM."""
_Access = tuple[list[tuple[str, str, str, list[str], float | None]], list[tuple[str, str, list[str]]]]
"""Tokens: SHA-256 in hexadecimal, name, role, patterns of models, end in seconds since 1970. Certificates: name, role,
patterns."""

@final
class Settings:
    """How the plane listens and what it bounds; frozen.

    `grpc_address` and `rest_address` are `host:port` with port 0 for any free one, or None for no such endpoint.
    `grpc_socket_path` is a Unix socket that leads through the gRPC endpoint too; `metrics_path` is one more path of
    metrics; with `starting` a model that is not there is UNAVAILABLE until `started` is called;
    `rest_cors` lets pages of any origin read REST answers; `tensor_content` has numbers in answers
    to Predict over gRPC as bytes in `tensor_content`; `shared_memory` lets clients register shared memory
    objects of this machine and of the engine's own user. With `tls` the sockets with ports speak TLS; with
    `access` requests need a token or a client certificate, except those about health; both can be replaced later.
    Sizes in bytes, times in milliseconds. Connections are closed whose request's head does not come within
    `header_timeout_ms`, that are without a request for `idle_timeout_ms`, that answer no ping after `keepalive_ms` of
    silence (gRPC), or that take nothing of an answer for `write_timeout_ms`. A stream of events without a message for
    `event_keepalive_ms` sends a comment. What is logged is written as Parquet below
    `log_path`, in blocks of `log_block_rows` and at the latest after `log_block_interval_ms`; without a path it is
    dropped. `log_columns` says by column, such as `in.email`, what is written as a `hash`, keyed with `log_salt`, and
    what to `omit`. Below `prediction_log_path`, answered requests are written beside it as TFRecord files of TensorFlow
    Serving's PredictionLogs, with every column. `log_buffer_bytes` bounds what waits to be written: beyond it records
    are dropped and counted. `access_log` is a file (None for standard error) that gets a line of JSON for each
    request, the share of requests that are in it, the seconds (0 for none) after which one is in it anyway, and how
    many lines a second requests of one address have for which no model ran (0 for all).
    `trace_sampling_rate` is the share of requests that begin a trace which is recorded; None records none.
    """

    def __new__(
        cls,
        *,
        grpc_address: str | None,
        rest_address: str | None,
        grpc_socket_path: str | PathLike[str] | None = None,
        metrics_path: str | None = None,
        starting: bool = False,
        rest_cors: bool = False,
        tensor_content: bool = False,
        shared_memory: bool = False,
        tls: _Tls | None = None,
        access: _Access | None = None,
        access_log: tuple[str | PathLike[str] | None, float, float, int] | None = None,
        trace_sampling_rate: float | None = None,
        io_threads: int = 1,
        max_message_bytes: int = 67108864,
        request_memory_bytes: int = 1073741824,
        max_connections: int = 4096,
        header_timeout_ms: int = 10000,
        idle_timeout_ms: int = 620000,
        keepalive_ms: int = 30000,
        write_timeout_ms: int = 30000,
        request_timeout_ms: int = 30000,
        event_keepalive_ms: int = 15000,
        log_path: str | PathLike[str] | None = None,
        log_columns: Mapping[str, str] = ...,
        log_salt: bytes = ...,
        prediction_log_path: str | PathLike[str] | None = None,
        log_block_rows: int = 16384,
        log_block_interval_ms: int = 1000,
        log_buffer_bytes: int = 134217728,
    ) -> Settings: ...
    @property
    def grpc_address(self) -> str | None: ...
    @property
    def rest_address(self) -> str | None: ...

@final
class TensorSpec:
    """Name, dtype and shape of one input or output; -1 is a dimension of any size.

    One of unknown rank has no shape.
    """

    def __new__(cls, *, name: str, dtype: str, shape: Sequence[int], unknown_rank: bool = False) -> TensorSpec: ...
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def unknown_rank(self) -> bool: ...

@final
class Signature:
    """One way to call a version. `method_name` is TensorFlow Serving's, such as `tensorflow/serving/predict`.

    `first_axis` is `batch` (of any size in every tensor), `assumed` (the batch until an answer shows that it is not:
    then, and for inputs of different sizes, each request runs alone) or `free` (each request runs alone, and counts as
    one row whose dimensions are all of its tensor's). `defaults` are values for inputs that a request may leave out.
    `event_time` names the input that holds the time of a row's event in Unix seconds, by whose day the row is logged;
    one that is not a number per row is as none. One that is `streaming` is `free` and answers each request with
    messages: its executor returns an iterator of what it would return else, which is closed where nobody wants more.
    One of `sequences` is `free` and has scalar inputs `sequence_id`, `sequence_start` and `sequence_end`; its requests
    run one after the other.
    `schema` are the JSON schemas of request and answer where its only input and its only output are JSON documents.
    """

    def __new__(
        cls,
        *,
        name: str,
        method_name: str,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        first_axis: str = "batch",
        defaults: Mapping[str, Any] | None = None,
        event_time: str | None = None,
        streaming: bool = False,
        sequences: bool = False,
        schema: tuple[str, str] | None = None,
    ) -> Signature: ...
    @property
    def name(self) -> str: ...

@final
class Batching:
    """When a batch closes and how long its queue may grow.

    `max_batch_rows` closes a batch; `timeout_us` above zero waits that long for more; `max_queued_rows` bounds the
    queue, beyond which a request is refused with RESOURCE_EXHAUSTED, or waits until its deadline where it
    `waits_when_full`; `concurrency` is the number of executor threads at
    most: they come with requests, and go when there was none for a minute. `allowed_batch_sizes`, ascending and ending
    at `max_batch_rows`, are the only numbers of rows in a `Batch`, unless it is empty: fewer rows get copies of the
    first, more run in pieces, and answers and log have the requests' rows alone. An unbatched request runs as it is.
    With `pad_variable_length_inputs` requests whose inputs differ in inner dimensions share a `Batch`, each filled up
    with its own first element; outputs keep the padded size, and the log has inputs as they came. Of `priority_levels`,
    1 the highest, higher ones go first, but for every eighth batch, which is the oldest; 0 has none, and a
    `default_priority_level` of 0 is the lowest.
    """

    def __new__(
        cls,
        *,
        max_batch_rows: int = 1024,
        timeout_us: int = 0,
        max_queued_rows: int = 16384,
        waits_when_full: bool = False,
        concurrency: int = 1,
        allowed_batch_sizes: Sequence[int] = ...,
        pad_variable_length_inputs: bool = False,
        priority_levels: int = 0,
        default_priority_level: int = 0,
    ) -> Batching: ...

@final
class Batch:
    """What an executor gets: inputs by name with the batch on axis 0, wrapping the batch buffer without a copy.

    An `unbatched` one is one request, counted as one row: its inputs have exactly its shapes, and so may the outputs. A
    model may keep an input or write into it: the buffer is reused only when its arrays are gone.
    `request_offsets` has one entry more than there are requests: request i owns rows `[offsets[i], offsets[i + 1])`,
    and rows after the last are copies that fill an allowed size.
    """

    @property
    def model(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def signature(self) -> str: ...
    @property
    def inputs(self) -> dict[str, np.ndarray[Any, Any]]: ...
    @property
    def rows(self) -> int: ...
    @property
    def unbatched(self) -> bool: ...
    @property
    def request_offsets(self) -> list[int]: ...

@final
class Result:
    """Outputs by name, batch on axis 0, and by row the (canonical gRPC code, message) of what went wrong, or with a
    list of errors in JSON as a third.

    A request with an error in any of its rows is answered with that error; the others get their rows.
    """

    def __new__(
        cls,
        outputs: Mapping[str, Any],
        errors: Mapping[int, tuple[int, str] | tuple[int, str, str]] | None = None,
    ) -> Result: ...

@final
class Publish:
    """Change: make a version available. `executor(batch)` returns a mapping of outputs or a `Result`, or raises.

    An exception's integer attribute `grpc_code`, where it has one, becomes the status; otherwise INTERNAL. A batch
    of several requests that raises is run again in halves, so that one bad request fails alone.

    `described` is what `GetModelMetadata` answers where the model describes its signatures itself: a `SignatureDefMap`
    as bytes, and its one field as a JSON object; both are sent as they are.

    Where the executor has an attribute `workers`, an `IdleWorkers`, an idle one of them is asked in its place. It is
    called for streams and where none is idle; its `told(batch, worker, text, outputs)` settles an answer that is more
    than outputs, `died(batch, worker, nonsense)` a batch whose worker has gone or, where `nonsense` says so, made no
    sense; both return as it does.
    """

    def __new__(
        cls,
        *,
        model: str,
        version: int,
        signatures: Sequence[Signature],
        executor: Callable[[Batch], Mapping[str, Any] | Result | Iterator[Mapping[str, Any] | Result]],
        batching: Batching,
        described: tuple[bytes, bytes] | None = None,
    ) -> Publish: ...

@final
class WorkerLine:
    """The engine's end of the way to one worker, whose end is `tidegate_serving.workers.channel`.

    A text and tensors go one at a time and come one at a time; neither way waits for the other. ConnectionError where
    nobody is there, ValueError for what makes no sense.
    """

    def __new__(cls) -> WorkerLine: ...
    def take_other_end(self) -> int:
        """The descriptor of the worker's end, the caller's from now on. ValueError the second time."""

    def send(self, text: bytes, tensors: dict[str, np.ndarray[Any, Any]] | None = None) -> None:
        """Sends a message; arrays of any shape, of a dtype that can be served or of text."""

    def receive(self) -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
        """Waits for the next message."""

    def unanswered_seconds(self) -> float | None:
        """For how long nothing has come since the last message was sent; None where something has."""

    def await_end(self, seconds: float) -> bool:
        """Whether the other side lets go within so many seconds."""

    def hang_up(self) -> None:
        """Nothing comes or goes any more; whoever waits gets ConnectionError."""

@final
class IdleWorkers:
    """The workers of a version that have nothing to do, each a Python object with its line.

    `notify` is called, on any thread, when one is idle again while somebody waits, as `await_one` says.
    """

    def __new__(cls, notify: Callable[[], object]) -> IdleWorkers: ...
    def __len__(self) -> int: ...
    def put(self, worker: object, line: WorkerLine) -> None:
        """One more, which is the next to be taken."""

    def take(self) -> Any:
        """The one that was put last, which is idle no more; None where there is none."""

    def remove(self, worker: object) -> bool:
        """Takes this one out. False where it is not idle."""

    def await_one(self, waits: bool) -> None:
        """One more waits for one, or one fewer. Look again after this before waiting."""

    def have_answered(self) -> bool:
        """Whether the data plane got an answer from one since this was last asked."""

    def close(self) -> None:
        """There are none any more."""

@final
class Retire:
    """Change: take a version out of the map. `released(model, version)` is called when its last handle is gone."""

    def __new__(cls, *, model: str, version: int) -> Retire: ...

@final
class SetLabels:
    """Change: the whole label set of a model. A label may only name a version in the map after this `apply`.

    `waiting` names labels that are wanted but whose version is not in the map yet: while `stable` is among them, a
    request without version or label is answered with UNAVAILABLE instead of landing on another version.
    """

    def __new__(cls, *, model: str, labels: Mapping[str, int], waiting: Sequence[str] = ...) -> SetLabels: ...

@final
class SetDefault:
    """Change: requests without version and label go to `version`; None for label `stable`, else the newest.

    A version that is not in the map after this `apply`, or leaves it later, is forgotten, as by None.
    """

    def __new__(cls, *, model: str, version: int | None) -> SetDefault: ...

@final
class SetShadow:
    """Change: copy a share of the model's requests to `version`, chosen by a hash of the request id; 0 stops it."""

    def __new__(cls, *, model: str, version: int, fraction: float) -> SetShadow: ...

@final
class SetLog:
    """Change: log a share of the model's answers, chosen by the same hash of the request id; 0 stops it."""

    def __new__(cls, *, model: str, sampling_rate: float) -> SetLog: ...

@final
class SetSplit:
    """Change: spread requests that name neither version nor label over several versions.

    `shares` sum to 1; empty ends the split. `key` is the header or metadata key whose value's hash decides, so that
    one value always gets one version; without it, and for requests that lack it, the request id decides. The share of
    a version that is not in the map is answered as if there were no split.
    """

    def __new__(cls, *, model: str, shares: Mapping[int, float], key: str = "") -> SetSplit: ...

@final
class SetDisabled:
    """Change: refuse every request to a model with UNAVAILABLE and `reason`, until `reason` is set to None."""

    def __new__(cls, *, model: str, reason: str | None) -> SetDisabled: ...

@final
class SetBatching:
    """Change: other queue limits and another number of executor threads for all versions of a model in the map."""

    def __new__(cls, *, model: str, batching: Batching) -> SetBatching: ...

class PredictError(Exception):
    """A request of `DataPlane.predict` failed; its arguments are the canonical gRPC code and the message."""

@final
class Arrived:
    """Numbers of requests whose answers are there. `ring` is called without arguments, by any thread, when there is
    something to take again.
    """

    def __new__(cls, ring: Callable[[], object]) -> Arrived: ...
    def take(self) -> list[int]:
        """The numbers since the last call."""

@final
class PendingPrediction:
    """A request under way. One that is let go of before its answer came is not computed, where it still waits."""

    @property
    def seconds_left(self) -> float:
        """Until its deadline."""

    def poll(self) -> tuple[dict[str, np.ndarray[Any, Any]], int] | None:
        """Outputs by name and the version that gave them, once; None while they are not there. Behind the deadline they
        are, but for an answer that is just being written. Raises `PredictError`.
        """

@final
class PredictionStream:
    """The messages of one request under way."""

    @property
    def version(self) -> int:
        """That answers."""

    def next(self) -> dict[str, np.ndarray[Any, Any]] | None:
        """Waits for the outputs of the next message by name; None behind the last one, or once it is closed. Raises
        `PredictError`.
        """

    def close(self) -> None:
        """No more messages are wanted: the model is told to stop."""

@final
class TracedRequest:
    """A request that has ended and whose trace is recorded. Times are nanoseconds since 1970.

    `parent_span_id` is its caller's, None where the trace begins here; `status` is the canonical gRPC code. `stages`
    have name (read, decode, queue, run, encode), beginning and end, as far as the request came. What never became known
    of it is None.
    """

    @property
    def trace_id(self) -> bytes: ...
    @property
    def span_id(self) -> int: ...
    @property
    def parent_span_id(self) -> int | None: ...
    @property
    def protocol(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def peer(self) -> tuple[str, int] | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def version(self) -> int | None: ...
    @property
    def signature(self) -> str | None: ...
    @property
    def rows(self) -> int | None: ...
    @property
    def request_id(self) -> str | None: ...
    @property
    def status(self) -> int: ...
    @property
    def http_status(self) -> int | None: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...
    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def stages(self) -> list[tuple[str, int, int]]: ...

@final
class DataPlane:
    """A running data plane: endpoints, a serving map, a queue per version and a log.

    `released`, `control` and `log_told` are called on threads of the plane's own, one call at a time each.
    `control(method, request)` answers what clients ask rarely, with the full gRPC method path and protobuf bytes in
    and out; an exception's `grpc_code` and text become the status. `log_told` hears why a block of the log could not be
    written, an OSError with the folder's name where the system refused it, and None once one could again. `traces` gets
    requests whose traces are recorded and says whether they are kept. Raises
    OSError when an address cannot be bound.
    """

    @staticmethod
    def start(
        settings: Settings,
        *,
        released: Callable[[str, int], None],
        control: Callable[[str, bytes], bytes],
        log_told: Callable[[Exception | None], None],
        traces: Callable[[list[TracedRequest]], bool] | None = None,
    ) -> DataPlane: ...
    @property
    def grpc_address(self) -> str | None: ...
    @property
    def rest_address(self) -> str | None: ...
    def apply(
        self,
        changes: Sequence[
            Publish | Retire | SetLabels | SetDefault | SetShadow | SetLog | SetSplit | SetDisabled | SetBatching
        ],
    ) -> None:
        """Swaps the serving map once for all changes; ValueError, and nothing changes, when one of them cannot be."""

    def predict(
        self,
        model: str,
        inputs: Mapping[str, Any],
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str = "",
        timeout_ms: int | None = None,
        request_id: str | None = None,
        traceparent: str | None = None,
        key: str | None = None,
    ) -> tuple[dict[str, np.ndarray[Any, Any]], int]:
        """Asks a model without a socket: outputs by name, and the version that gave them.

        Goes the way of every other request: same handles, queues, batches, shadow, log and counters (endpoint
        `embedded`). Inputs are anything that numpy makes an array of; they are cast where no kind and no value is lost.
        `key` is the value by which a split with a key decides. The GIL is free while the request waits. Raises
        `PredictError`.
        """

    def submit(
        self,
        model: str,
        inputs: Mapping[str, Any],
        arrived: Arrived,
        ticket: int,
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str = "",
        timeout_ms: int | None = None,
        request_id: str | None = None,
        traceparent: str | None = None,
        key: str | None = None,
    ) -> PendingPrediction:
        """As `predict`, but comes back at once; `arrived` is told `ticket` once the answer is there, perhaps before
        this returns. Raises `PredictError` for what is refused by then.
        """

    def stream(
        self,
        model: str,
        inputs: Mapping[str, Any],
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str = "",
        timeout_ms: int | None = None,
        request_id: str | None = None,
        traceparent: str | None = None,
        key: str | None = None,
    ) -> PredictionStream:
        """As `predict`, for a signature that streams. `timeout_ms` bounds all of it; None is the settings' own, for
        each message. Raises `PredictError` for what is refused by then.
        """

    def set_limits(self, *, max_message_bytes: int, max_connections: int, request_timeout_ms: int) -> None:
        """Limits from now on; what was let in before stays. ValueError, and nothing changes, for one that is 0."""

    def set_access(self, access: _Access) -> None:
        """Who may ask from now on. ValueError for what cannot be, and where the plane was started without `access`."""

    def set_tls(self, tls: _Tls) -> None:
        """What the server shows on connections from now on, and whose certificates it takes. ValueError, and nothing
        changes, for what cannot be used, and where the plane was started without `tls`.
        """

    def set_ready(self, ready: bool, reason: str) -> None:
        """What `/v2/health/ready` answers; not ready until first called."""

    def started(self) -> None:
        """What the server starts with is loaded, or has failed: from now on a model that is not there is NOT_FOUND."""

    def set_states(self, model: str, states: Sequence[tuple[int, int, int, str]]) -> None:
        """What `GetModelStatus` answers about a model from now on: version, `ModelVersionStatus.State`, canonical gRPC
        code and text of each, in this order. No states forget the model; labels are those of the map.
        """

    def set_gauges(self, name: str, help: str, samples: Sequence[tuple[Sequence[tuple[str, str]], float]]) -> None:
        """Replaces a family of gauges in the metrics: its help text, and the labels (name and value, in this order) and
        the value of each sample. No samples forget the family. ValueError for a name that Prometheus cannot take.
        """

    def stats(self, model: str | None = None) -> dict[str, float]:
        """Counters by Prometheus sample name with labels, the same numbers as `/metrics`; with `model` only its own and
        those of no model. Versions that are gone keep theirs until 16 newer ones of their model are gone.

        By endpoint (grpc, rest, embedded), model, version and status: `tidegate_requests_total` (model and version are
        empty where none was found, and for calls that need none). By endpoint: `tidegate_request_seconds` (histogram,
        from a request's last byte to its answer), `tidegate_connections`, `tidegate_refused_connections_total` and,
        also by reason, `tidegate_closed_connections_total` (these three not for embedded). By model, version and method
        (Predict, Classify, Regress, MultiInference, SessionRun): `tidegate_method_requests_total`, those that found a
        version and its signature. By model and version: `tidegate_batches_total` and `tidegate_python_entries_total`
        (always equal), `tidegate_rows_total`, `tidegate_batch_rows` (histogram), `tidegate_padding_rows_total` (copies
        that fill an allowed size, not among the rows), `tidegate_bisections_total` (batches run again in halves),
        `tidegate_panics_total` (batches lost to a fault of the plane itself), `tidegate_call_seconds_running` (of the
        longest call that runs now, 0 while none does), `tidegate_queued_rows`, `tidegate_queue_rejections_total`,
        `tidegate_deadline_drops_total` and `tidegate_cancelled_total` (requests not computed, shadows included),
        `tidegate_stream_messages_total` (of streaming answers, once there is one),
        `tidegate_shadow_copied_total`, `tidegate_shadow_dropped_total` (queue full), `tidegate_shadow_failed_total`
        (does not fit the signature), the three of the version that gets the copies. By role (primary, shadow):
        `tidegate_log_eligible_rows_total`, `tidegate_log_written_rows_total`, `tidegate_log_dropped_rows_total`; after
        a drain eligible is the sum of the other two. `tidegate_log_waiting_bytes` has no label, and so have
        `tidegate_access_log_written_lines_total`, `tidegate_access_log_dropped_lines_total`,
        `tidegate_access_log_left_out_lines_total`, `tidegate_traces_exported_total` and
        `tidegate_traces_dropped_total` (in requests). By model, version and
        state: `tidegate_version_state`, 1 for the state in which a version is, as `set_states` said it. Beside these:
        whatever `set_gauges` was given.
        """

    def running_calls(self) -> list[tuple[str, int, str, int, str, float]]:
        """Every call of a model that runs now, the longest first: model, version, signature, rows of its batch, id of
        its first request, and seconds.
        """

    def stuck_calls(self, least_ms: int) -> list[tuple[str, int, str, int, str, float]]:
        """Those that run for longer than `least_ms` and than ten times what calls of their version usually take."""

    def drain(self, deadline_ms: int) -> bool:
        """Not ready, no new connections, answer what was accepted, flush the log, stop. True if all was answered and
        every call of a model has returned in time; who was not answered hears UNAVAILABLE. Returns soon after the
        deadline, whatever hangs.
        """

@final
class Router:
    """A fleet's router: takes requests as an engine does, and forwards each to a node that has its model.

    Started as a data plane is, with the same settings; what they say of logs of inferences has no meaning here, and
    memory is not shared. `wanted` is called with the name of a model that is asked for and on no node, on a thread of
    its own: once, and again if a request has waited `cold_timeout_ms` in vain. At most `cold_requests` of them, with
    `cold_bytes` of messages, wait at a time; others are refused. Without an answer for `hedge_after_ms` a second copy
    of a request goes to another node, for at most one request in twenty. Each I/O thread has `connections_per_node`
    HTTP/2 connections to each node, and as many over HTTP/1.1 as it has requests under way; with `node_tls` all of
    them are encrypted. Raises ValueError for what cannot be, OSError for an address.
    """

    @staticmethod
    def start(
        settings: Settings,
        *,
        wanted: Callable[[str], object],
        cold_timeout_ms: int = 30000,
        cold_requests: int = 1024,
        cold_bytes: int = 67108864,
        hedge_after_ms: int | None = None,
        connections_per_node: int = 2,
        node_tls: _NodeTls | None = None,
    ) -> Router: ...
    @property
    def grpc_address(self) -> str | None: ...
    @property
    def rest_address(self) -> str | None: ...
    def apply(self, nodes: Mapping[str, tuple[str, str]], models: Mapping[str, Sequence[str]]) -> None:
        """Swaps all routes at once.

        `nodes` has by id the `host:port` of the gRPC and the REST endpoint, `models` by name the ids of the nodes that
        a model is on; with none of them a model is known, and wanted as soon as it is asked for. The router is ready
        from the first call on. Raises ValueError, and nothing changes, for a node that is not there and an address that
        can be none.
        """

    def set_states(self, states: Mapping[str, Sequence[tuple[int, int, int, str]]]) -> None:
        """How the versions of all models stand in the fleet, as `DataPlane.set_states` takes those of one."""

    def set_refused(self, refused: Mapping[str, str]) -> None:
        """Models that are loaded for no request from now on, with why; nodes that have one say so themselves."""

    def set_access(self, access: _Access) -> None:
        """As `DataPlane.set_access`."""

    def set_tls(self, tls: _Tls) -> None:
        """As `DataPlane.set_tls`."""

    def set_node_tls(self, tls: _NodeTls) -> None:
        """What connections to nodes begin with from now on. ValueError, and nothing changes, for what cannot be used,
        and where the router was started without `node_tls`.
        """

    def stats(self) -> dict[str, tuple[int, int, int, int, float]]:
        """By model: requests, errors, retried, hedged, and when it was used last in seconds since 1970, or 0.0."""

    def stop(self, drain_seconds: float) -> bool:
        """Not ready, no new connections, answers what was accepted within the time, and ends.

        True if all was answered. Idempotent.
        """

@final
class ExitGuard:
    """Ends the process where a stop takes too long or is asked for twice, whoever holds the GIL meanwhile.

    `signals` is a file descriptor for `signal.set_wakeup_fd`; the numbers that come there come out of `passed_on`. Both
    belong to the caller, who closes them.
    """

    def __new__(cls) -> ExitGuard: ...
    @property
    def signals(self) -> int: ...
    @property
    def passed_on(self) -> int: ...
    def arm(self, limit_ms: int) -> None:
        """From now on the process ends with status 1 so long after the first SIGTERM or SIGINT, and at once at the
        second; it says on stderr which calls of models run.
        """

    def watch(self, plane: DataPlane) -> None:
        """Whose calls are named when the process ends."""

    def ended(self, status: int) -> None:
        """Nothing is left to do: where a signal has come, the process ends with this status within a second, whatever
        thread still runs.
        """
