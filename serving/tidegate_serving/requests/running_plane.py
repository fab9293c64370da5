"""The data plane while it runs: started on the config's addresses, with its callbacks going to the front.

The engine starts one, reads its addresses and counters, and drains it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import tidegate_native as native

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import InvalidInput, Unavailable, Unsupported, error_from, error_of
from tidegate_serving.contract.servable import StateChange
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.prediction import Prediction
from tidegate_serving.requests.async_predictions import AsyncPredictions
from tidegate_serving.requests.plane_front import PlaneFront
from tidegate_serving.requests.running_calls import RunningCall
from tidegate_serving.requests.settings import AccessLines, PemTexts, plane_settings

REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
RELOAD_CONFIG = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
TracedRequest = native.TracedRequest
"""A request whose trace is recorded."""
State = tuple[int, int, int, str]
"""Version, `ModelVersionStatus.State`, canonical gRPC code and text of what went wrong."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """Which version of a model is asked and by which signature, until when (seconds), and under which id.

    `key` is the value by which a split with a key decides, `traceparent` what W3C Trace Context's header would say.
    """

    version: int | None = None
    label: str | None = None
    signature: str = ""
    request_id: str | None = None
    timeout: float | None = None
    key: str | None = None
    traceparent: str | None = None

    def words(self) -> dict[str, Any]:
        """As the native plane takes it."""
        return {
            "version": self.version,
            "label": self.label,
            "signature": self.signature,
            "timeout_ms": None if self.timeout is None else max(1, int(self.timeout * 1000)),
            "request_id": self.request_id,
            "traceparent": self.traceparent,
            "key": self.key,
        }


@dataclass(frozen=True, slots=True)
class PortSecurity:
    """Who is let in on the data ports, as the native plane takes it: `tls` None for plain text, `access` None for
    everybody."""

    tls: PemTexts | None = field(default=None, repr=False)
    access: AccessLines | None = field(default=None, repr=False)


class RunningPlane:
    """Owns the native plane; the front is open to it until it has drained."""

    def __init__(self, plane: native.DataPlane, front: PlaneFront) -> None:
        self._plane: native.DataPlane | None = plane
        self._addresses = plane.grpc_address or "", plane.rest_address or ""
        self._last_stats: dict[str, float] = {}
        self._front = front
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncPredictions] = WeakKeyDictionary()

    @property
    def grpc_address(self) -> str:
        """Where gRPC listens, empty where that endpoint is closed."""
        return self._addresses[0]

    @property
    def rest_address(self) -> str:
        """Where REST listens, empty where that endpoint is closed."""
        return self._addresses[1]

    def set_ready(self, ready: bool, reason: str) -> None:
        """What `/v2/health/ready` answers."""
        if (plane := self._plane) is not None:
            plane.set_ready(ready, reason)

    def started(self) -> None:
        """From now on a model that is not there is not found; before, it is unavailable, as it may load."""
        if (plane := self._plane) is not None:
            plane.started()

    def predict(self, model: str, inputs: Mapping[str, Any], target: Target) -> Prediction:
        """Asks a model in process. Raises the contract's errors as a client would get them."""
        if (plane := self._plane) is None:
            raise _stopped(model)
        try:
            outputs, version = plane.predict(model, inputs, **target.words())
        except native.PredictError as error:
            code, message = error.args
            raise error_from(code, message) from None
        return Prediction(outputs, model, version)

    def stream(self, model: str, inputs: Mapping[str, Any], target: Target) -> Generator[Prediction]:
        """Asks a model in process that answers with messages. Raises as `predict`, also between them."""
        if (plane := self._plane) is None:
            raise _stopped(model)
        try:
            stream = plane.stream(model, inputs, **target.words())
        except native.PredictError as error:
            code, message = error.args
            raise error_from(code, message) from None
        return _messages(stream, model)

    async def predict_async(self, model: str, inputs: Mapping[str, Any], target: Target) -> Prediction:
        """As `predict`, for an event loop."""
        if (plane := self._plane) is None:
            raise _stopped(model)
        loop = asyncio.get_running_loop()
        predictions = self._loops.get(loop)
        if predictions is None:
            predictions = self._loops[loop] = AsyncPredictions(loop)

        def submit(arrived: native.Arrived, ticket: int) -> native.PendingPrediction:
            return plane.submit(model, inputs, arrived, ticket, **target.words())

        try:
            outputs, version = await predictions.answer(submit)
        except native.PredictError as error:
            code, message = error.args
            raise error_from(code, message) from None
        return Prediction(outputs, model, version)

    def set_access(self, access: AccessLines) -> None:
        """Who may ask from now on. InvalidInput for what cannot be."""
        if (plane := self._plane) is not None:
            with usable():
                plane.set_access(access)

    def set_tls(self, tls: PemTexts) -> None:
        """What the server shows on connections from now on. InvalidInput for what cannot be."""
        if (plane := self._plane) is not None:
            with usable():
                plane.set_tls(tls)

    def set_states(self, model: str, states: Sequence[State]) -> None:
        """What `GetModelStatus` answers about a model."""
        if (plane := self._plane) is not None:
            plane.set_states(model, states)

    def set_gauges(self, name: str, help: str, samples: Sequence[tuple[list[tuple[str, str]], float]]) -> None:
        """A family of gauges in the metrics: help text, and labels and value of each sample; none forget it."""
        if (plane := self._plane) is not None:
            plane.set_gauges(name, help, samples)

    def stats(self, model: str = "") -> dict[str, float]:
        """Counters by Prometheus sample name; of all models, only those of one that is named. Once it has drained, the
        last ones of all."""
        plane = self._plane
        return self._last_stats if plane is None else plane.stats(model or None)

    def stuck_calls(self, least_seconds: float) -> list[RunningCall]:
        """Calls that run for longer than this and than ten times what is usual for their version, the longest first."""
        plane = self._plane
        return [] if plane is None else [RunningCall.of(told) for told in plane.stuck_calls(int(least_seconds * 1000))]

    def watched_by(self, guard: native.ExitGuard) -> None:
        """Where the process has to be ended by force, the guard names the calls that run here."""
        if (plane := self._plane) is not None:
            guard.watch(plane)

    def drain(self, seconds: float) -> bool:
        """Answers what was accepted, waits for calls whose clients have gone, writes what was logged, stops.

        True if all of it was done in time.

        The native plane is let go of then: it and what it calls hold each other, which no garbage collector sees. One
        that still runs something is kept, because its end waits for that.
        """
        plane = self._plane
        drained = plane is None or plane.drain(int(seconds * 1000))
        self._front.close()
        if plane is not None and not drained:
            for told in plane.running_calls():
                _log.error("%s, and is not waited for any more", RunningCall.of(told))
        if drained and plane is not None:
            self._last_stats = plane.stats()
            self._plane = None
        return drained


def _messages(stream: native.PredictionStream, model: str) -> Generator[Prediction]:
    try:
        while (outputs := stream.next()) is not None:
            yield Prediction(outputs, model, stream.version)
    except native.PredictError as error:
        code, message = error.args
        raise error_from(code, message) from None
    finally:
        stream.close()


def start_plane(
    config: EngineConfig,
    front: PlaneFront,
    calls: Mapping[str, Callable[[bytes], bytes]],
    log_told: Callable[[Exception | None], None],
    security: PortSecurity | None = None,
    traces: Callable[[list[TracedRequest]], bool] | None = None,
) -> RunningPlane:
    """Listens and opens the front. OSError, naming the address, when one cannot be bound, InvalidInput for certificates
    or patterns in `security` that cannot be used; without it everybody is let in, in plain text.

    `calls` answer what Python answers on the data ports, by the method's path: protobuf bytes in and out, for another
    list of models (RELOAD_CONFIG) and each question of a REFLECTION call. `log_told` hears why the log cannot be
    written, and None once it can again. `traces` takes requests whose traces are recorded and says whether it has them.
    """

    def control(method: str, request: bytes) -> bytes:
        if (answer := calls.get(method)) is None:
            raise Unsupported(f"method {method} is not served here")
        return answer(request)

    given = security or PortSecurity()
    with usable():
        plane = native.DataPlane.start(
            plane_settings(config, given.tls, given.access),
            released=front.on_released,
            control=control,
            log_told=log_told,
            traces=traces,
        )
    front.open(plane)
    return RunningPlane(plane, front)


@contextmanager
def usable() -> Iterator[None]:
    """Has what the native side cannot use said as InvalidInput, and what to do about an address that it cannot have."""
    try:
        yield
    except OSError as error:
        if not str(error).startswith("cannot listen on"):
            raise
        raise OSError(f"{error}: end what listens there, or name another address of this machine") from error
    except ValueError as error:
        raise InvalidInput(f"the data ports cannot use what their files say: {error}") from error


class ModelStates:
    """Passes a servable's states on whenever one has changed. Safe from any thread."""

    def __init__(self, known: StateMonitor, tell: Callable[[str, Sequence[State]], None]) -> None:
        self._known = known
        self._tell = tell
        self._lock = threading.Lock()

    def heard(self, change: StateChange) -> None:
        """A listener of the event bus, after the monitor."""
        with self._lock:  # asked and told in one go: an older picture must not come after a newer one
            self._tell(change.id.name, [_row(change) for change in self._known.states(change.id.name)])


def _row(change: StateChange) -> State:
    code = error_of(change.error_code, "").grpc_code if change.error_code else 0
    return change.id.version, change.state.value, code, change.error_message


def _stopped(model: str) -> Unavailable:
    return Unavailable(f"the engine has stopped: {model!r} cannot be asked any more")
