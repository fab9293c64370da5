"""What Airflow's triggerer waits for: a version of an engine, a moment, the alias of a registered model.

They look and wait; whatever has to be done is done by the task that wakes up. Blocking calls run in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate_operators.airflow.compat import BaseEventTrigger, BaseTrigger, TriggerEvent
from tidegate_operators.airflow.hook import TidegateHook

_HERE = "tidegate_operators.airflow.triggers"


class VersionTrigger(BaseTrigger):
    """Fires once a version is AVAILABLE, has ended with an error or is wanted no more, or when `deadline` (ISO 8601)
    has come; without a version once ordinary clients are answered. An engine that does not answer is waited for.

    The event has `state` and what is `carried`: `airflow dags test` gives a task that wakes up the event alone.
    """

    def __init__(
        self,
        *,
        tidegate_conn_id: str,
        servable: str,
        version: int | None,
        deadline: str,
        poll_seconds: float = 2.0,
        carried: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tidegate_conn_id = tidegate_conn_id
        self.servable = servable
        self.version = version
        self.deadline = deadline
        self.poll_seconds = poll_seconds
        self.carried = dict(carried or {})

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Where it is, and its arguments."""
        names = ("tidegate_conn_id", "servable", "version", "deadline", "poll_seconds", "carried")
        return f"{_HERE}.VersionTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Looks every `poll_seconds`."""
        deadline = datetime.fromisoformat(self.deadline)
        while datetime.now(UTC) < deadline:
            state = await asyncio.to_thread(self._look)
            if state is not None:
                yield TriggerEvent({**self.carried, "state": state})  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(min(self.poll_seconds, max((deadline - datetime.now(UTC)).total_seconds(), 0.0)))
        yield TriggerEvent({**self.carried, "state": "DEADLINE"})  # type: ignore[no-untyped-call]

    def _look(self) -> str | None:
        from tidegate_operators.airflow.waiting import version_state

        return version_state(TidegateHook(self.tidegate_conn_id).engine, self.servable, self.version).state


class PauseTrigger(BaseTrigger):
    """Fires at a `moment` (ISO 8601); the event is what is `carried`, as of a VersionTrigger."""

    def __init__(self, *, moment: str, carried: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moment = moment
        self.carried = dict(carried)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Where it is, and its arguments."""
        return f"{_HERE}.PauseTrigger", {"moment": self.moment, "carried": self.carried}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Sleeps; a clock that was set back is waited for."""
        moment = datetime.fromisoformat(self.moment)
        while (left := (moment - datetime.now(UTC)).total_seconds()) > 0.0:
            await asyncio.sleep(left)
        yield TriggerEvent(self.carried)  # type: ignore[no-untyped-call]


class RegisteredModelTrigger(BaseEventTrigger):
    """For an AssetWatcher: fires for the version that an alias of a model in MLflow's registry names, and for each that
    it comes to name.

    The event's payload has `name`, `version`, `alias` and `uri`. After a restart the present version is announced
    again, so that no change is lost; to release what serves already changes nothing. A registry that does not answer is
    asked again, and the triggerer's log says so once; a `uri` that is no server's address is InvalidInput at once.
    """

    def __init__(self, *, name: str, uri: str, alias: str = "champion", poll_seconds: float = 30.0) -> None:
        from tidegate_serving.sources.mlflow.registry import sign_in

        super().__init__()  # type: ignore[no-untyped-call]
        sign_in(uri)
        self.name = name
        self.uri = uri
        self.alias = alias
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Where it is, and its arguments."""
        names = ("name", "uri", "alias", "poll_seconds")
        return f"{_HERE}.RegisteredModelTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Polls until it is cancelled."""
        from tidegate_serving.contract.errors import TidegateError

        known: str | None = None
        complained = ""
        while True:
            try:
                version = await asyncio.to_thread(self._look)
                complained = ""
            except TidegateError as error:
                if error.message != complained:
                    self.log.warning("%s; it is asked every %g s", error.message, self.poll_seconds)
                version, complained = None, error.message
            if version not in (None, known):
                known = version
                payload = {"name": self.name, "version": version, "alias": self.alias, "uri": self.uri}
                yield TriggerEvent(payload)  # type: ignore[no-untyped-call]
            await asyncio.sleep(self.poll_seconds)

    def _look(self) -> str | None:
        from tidegate_operators.airflow.waiting import registered_version

        return registered_version(self.uri, self.name, self.alias)
