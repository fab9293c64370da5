"""A running engine from a config: start, stop, drain. What `tidegate serve` runs and an embedding program imports.

Sources speak to the reconciler, that to the manager (through the router, which makes loaders of references) and to the
front of the native data plane; what that logs goes to the writer, and every state change to the monitor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidegate_serving.config import EngineConfig, ModelConfig
from tidegate_serving.config.view import ConfigDiff
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput
from tidegate_serving.contract.gauges import Gauges
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.control.status import EngineStatus
from tidegate_serving.embedded.callables import Predicts, callable_of
from tidegate_serving.embedded.defaults import embedded_config
from tidegate_serving.embedded.signatures import described
from tidegate_serving.embedded.traffic import Traffic
from tidegate_serving.embedded.view import as_html, as_text
from tidegate_serving.inference_log.comparison import Comparison
from tidegate_serving.platforms.platform import Platform
from tidegate_serving.prediction import Prediction
from tidegate_serving.requests.running_plane import Target
from tidegate_serving.runtime.running_engine import EngineAddresses, RunningEngine
from tidegate_serving.sources.problems import Reports
from tidegate_serving.stop_signal import StopSignal

_log = logging.getLogger(__name__)


class Engine:
    """One engine; a context manager, which drains at its end, or started and stopped by hand.

    Without a config it lives for the program that makes it: no port is open but those named here (`host:port`, port 0
    for any), nothing has to be verified, and it serves what `serve` and `load` are given.

        with Engine() as engine:
            engine.serve("half_plus_two", lambda x: {"y": x / 2 + 2}, inputs={"x": "float32"})
            engine.predict("half_plus_two", {"x": [1.0, 2.0]})["y"]

    `reread` gives the config anew from where it came from, for the method of that name and for the control port.
    """

    def __init__(
        self,
        config: EngineConfig | None = None,
        *,
        grpc: str = "",
        rest: str = "",
        control: str = "",
        log: Path | str | None = None,
        reread: Callable[[], EngineConfig] | None = None,
    ) -> None:
        if config is None:
            config = embedded_config(grpc, rest, control, log)
        elif grpc or rest or control or log:
            raise InvalidInput("an engine with a config takes its addresses and its log from there: name them there")
        self._config = config
        self._reread = reread
        self._running: RunningEngine | None = None

    def start(self) -> EngineAddresses:
        """Listens, tells what its sources want, and waits until every version is AVAILABLE or has failed once.

        Raises InvalidInput or NotFound for a config that cannot be used, OSError naming an address that is taken, and
        FailedPrecondition where another engine uses the state directory. Nothing is left running when it raises.
        """
        if self._running is not None:
            raise FailedPrecondition("this engine runs already: stop it first, or make another")
        self._running = RunningEngine(self._config, self.reread)
        try:
            self._running.start()
        except BaseException:
            self.stop(0.0)
            raise
        return self._running.addresses

    def stop(self, drain_seconds: float | None = None) -> bool:
        """Not ready, drain, unload. True if every accepted request was answered and every version unloaded in time."""
        running, self._running = self._running, None
        return running is None or running.stop(self._config.drain_seconds if drain_seconds is None else drain_seconds)

    @property
    def addresses(self) -> EngineAddresses:
        """Where it listens."""
        return self._live().addresses

    def status(self, servable: str = "") -> EngineStatus:
        """Where everything stands now."""
        return self._live().status(servable)

    def wait_until(self, servable: str, version: int, state: State, timeout: float) -> StateChange:
        """Returns once a version is in a state. DeadlinePassed after `timeout` seconds."""
        return self._live().lifecycle.monitor.wait_until(ServableId(servable, version), state, timeout)

    @property
    def config(self) -> EngineConfig:
        """What it lives by now."""
        return self._config if self._running is None else self._running.live.now

    def reload(self, config: EngineConfig, *, dry_run: bool = False) -> ConfigDiff:
        """Lives by another config from now on, all or nothing; with `dry_run` only says what would change.

        Raises InvalidInput or NotFound for a config that cannot be used, and FailedPrecondition for a key that only a
        restart can change, naming it; nothing has changed then.
        """
        return self._live().reload(config, dry_run)

    def reread(self, *, dry_run: bool = False, requested_by: str = "", reason: str = "") -> ConfigDiff:
        """Reads the config again from where it came from and lives by it, as `reload` does.

        FailedPrecondition where nobody said from where; who asked and why goes into the journal.
        """
        live = self._live()
        with live.refusals("reload", requested_by, reason):
            if self._reread is None:
                raise FailedPrecondition("this engine's config came from no file: call Engine.reload with another one")
            return live.reload(self._reread(), dry_run, requested_by, reason)

    def replace_models(self, models: Mapping[str, ModelConfig], timeout: float, requested_by: str = "") -> None:
        """Serves these models with a `path` and none of those that had one before, as TensorFlow Serving's reload.

        Returns once every new model has an available version; one that cannot be served within `timeout` seconds raises
        its error, and then everything is as it was.
        """
        self._live().replace_models(models, timeout, requested_by)

    @property
    def problems(self) -> Reports:
        """Where a program that decides what is served says what stands in its way; status and the journal show it."""
        return self._live().lifecycle.problems

    @property
    def gauges(self) -> Gauges:
        """Where a program shows numbers of its own among the engine's metrics."""
        return self._live().plane()

    def check_decisions(self, check: Callable[[str, int | None], None] | None) -> None:
        """Before the control port takes a push of a servable or an operator's decision about it, `check` is called with
        its name and the lead that a fleet's controller says, None of anybody else, from now on: it raises where
        somebody else decides about it. None asks nobody."""
        self._live().check_decisions(check)

    def watched_by(self, stop: StopSignal) -> None:
        """Where the process has to be ended by force, the calls of models that run are named."""
        self._live().plane().watched_by(stop.guard)

    # For the program that it lives in

    def serve(
        self,
        name: str,
        model: Callable[..., Any] | Predicts,
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        example: Mapping[str, Any] | None = None,
        version: int | None = None,
        keep: bool = False,
        timeout: float = 60.0,
    ) -> ServableId:
        """Serves a callable, or an object with a method `predict`, that takes and returns whole batches as arrays.

        Returns once it answers. Inputs and outputs by name: a dtype (`"float32"`), or dtype and shape, the batch first
        (`("float32", (-1, 4))`). What is not said comes from `example` (a batch by input name), from annotations, or
        from a trial run. Where the only parameter is annotated with a pydantic model, or a list of one for a whole
        batch, it takes and returns such documents, also at `POST /inference/NAME`. Serving a name again replaces the
        version before, whose requests are still answered, and takes its labels along; `keep` leaves it beside the new
        one. Raises the contract's errors, and then everything is as it was.
        """
        function = callable_of(model)
        function, signature = described(function, inputs, outputs, example)
        program, signatures = self._live().program(), {SERVING_DEFAULT: signature}
        return program.serve(name, function, signatures, version=version, keep=keep, timeout=timeout)

    def load(
        self,
        path: Path | str,
        *,
        name: str | None = None,
        version: int | None = None,
        platform: str | None = None,
        keep: bool = False,
        timeout: float = 600.0,
    ) -> ServableId:
        """Serves the version in a folder, or the newest below it; returns once it answers. `keep` as in `serve`.

        A published version names itself; for any other folder, names and the kind of model come from the folder unless
        they are given. Raises the contract's errors, and then everything is as it was.
        """
        program = self._live().program()
        return program.load(Path(path), name=name, version=version, platform=platform, keep=keep, timeout=timeout)

    def unload(self, name: str, version: int | None = None, timeout: float = 60.0) -> None:
        """Takes away what `serve` or `load` brought, one version or all; returns once nothing of it is left."""
        self._live().program().unload(name, version, timeout)

    def predict(
        self,
        model: str,
        inputs: Mapping[str, Any],
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str = SERVING_DEFAULT,
        request_id: str | None = None,
        traceparent: str | None = None,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Prediction:
        """Asks a model in this process, by the same queues, batches, shadow and log as over a socket, but without one.

        Inputs are whatever numpy makes arrays of, batch on axis 0, cast to the signature's dtypes: floats are rounded,
        and everything else that would be lost is InvalidInput, as floats that would become infinite, whole numbers that
        do not fit, and elements behind a mask. `timeout` in seconds, None for the config's; `key` is the value by which
        a split with a key decides; `traceparent`, as in W3C Trace Context, names the trace that the log shall have.
        Raises the contract's errors.
        """
        target = Target(version, label, signature, request_id, timeout, key, traceparent)
        return self._live().plane().predict(model, inputs, target)

    def stream(
        self,
        model: str,
        inputs: Mapping[str, Any],
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str = SERVING_DEFAULT,
        request_id: str | None = None,
        traceparent: str | None = None,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Generator[Prediction]:
        """As `predict`, for a signature that streams: its messages, as the model makes them. Closing it, or dropping
        it, has the model stop. `timeout` is for all of it; None is the config's, for each message.
        """
        target = Target(version, label, signature, request_id, timeout, key, traceparent)
        return self._live().plane().stream(model, inputs, target)

    async def predict_async(
        self,
        model: str,
        inputs: Mapping[str, Any],
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str = SERVING_DEFAULT,
        request_id: str | None = None,
        traceparent: str | None = None,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Prediction:
        """As `predict`, for programs with an event loop: any number may be under way without a thread for each, and
        what comes together runs together. One whose task is cancelled while it waits in its queue is not computed.
        """
        target = Target(version, label, signature, request_id, timeout, key, traceparent)
        return await self._live().plane().predict_async(model, inputs, target)

    def compare(
        self,
        model: str,
        primary: int,
        shadow: int,
        since: datetime | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Comparison:
        """How the copies that version `shadow` answered compare with the answers of version `primary`, from the log.

        Agreement, differences and correlation by output, latencies and errors of both; pairs received since a moment,
        all that are logged for None. What waits for its log block does not count yet. FailedPrecondition without a log.
        """
        return self._live().compare(model, (primary, shadow), since, outputs)

    def add_platform(self, name: str, factory: Callable[[], Platform]) -> None:
        """Knows one kind of model more from now on: versions whose manifest or config names it load through it.

        AlreadyExists for a name that is taken; a reload of the config leaves it as it is.
        """
        self._live().add_platform(name, factory)

    @property
    def traffic(self) -> Traffic:
        """Labels, shadow, split, switch, batching, log rate and limits, to be read and set while requests come."""
        parts = self._live().lifecycle
        return Traffic(parts.reconciler, parts.front)

    def __repr__(self) -> str:
        return "Tidegate engine, not running" if self._running is None else as_text(self.status())

    def _repr_html_(self) -> str | None:
        return None if self._running is None else as_html(self.status())

    def _live(self) -> RunningEngine:
        if self._running is None:
            raise FailedPrecondition("this engine does not run: start it first")
        return self._running

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
