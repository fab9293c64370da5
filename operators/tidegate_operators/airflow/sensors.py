"""Sensors: a version that is AVAILABLE in an engine, and skew of what serves. Both can wait in the triggerer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import (
    BaseSensorOperator,
    PokeReturnValue,
    defers_by_default,
)
from tidegate_operators.airflow.fields import COLOUR, as_number, as_version
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context
    from tidegate_operators.airflow.waiting import Seen


class VersionAvailableSensor(BaseSensorOperator):
    """Waits until `version` of `servable` is AVAILABLE, or without a version until ordinary clients are answered.

    Fails at once where the version has ended with an error or is wanted no more.
    """

    template_fields: Sequence[str] = ("servable", "version", "tidegate_conn_id")
    ui_color = COLOUR

    def __init__(
        self,
        *,
        servable: str,
        version: int | str | None = None,
        deferrable: bool | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.servable = servable
        self.version = version
        self.deferrable = defers_by_default() if deferrable is None else deferrable
        self.tidegate_conn_id = tidegate_conn_id

    def poke(self, context: Context) -> PokeReturnValue:
        """Looks once, and says in the task's log what it waits for; Airflow calls it."""
        seen = self._look()
        if seen.state is None:
            self.log.info("%s is not available yet: %s", self._named(), seen.why)
        return PokeReturnValue(is_done=seen.state is not None, xcom_value=self._value(seen))

    def _look(self) -> Seen:
        from tidegate_operators.airflow.waiting import version_state
        from tidegate_serving.contract.errors import FailedPrecondition

        with steps_errors():
            engine = TidegateHook(self.tidegate_conn_id).engine
            seen = version_state(engine, self.servable, as_version(self.version))
            if seen.state == "END":
                raise FailedPrecondition(f"{self._named()} has ended: see `tidegate status {self.servable}`")
        return seen

    def _value(self, seen: Seen) -> dict[str, Any]:
        return {"servable": self.servable, "version": as_version(self.version), "state": seen.state}

    def _named(self) -> str:
        version = as_version(self.version)
        return self.servable if version is None else f"{self.servable}:{version}"

    def execute(self, context: Context) -> Any:
        """Looks first, and waits where that is needed; Airflow calls it."""
        if not self.deferrable:
            return super().execute(context)
        found = self.poke(context)
        if found.is_done:
            return found.xcom_value
        from tidegate_operators.airflow.triggers import VersionTrigger
        from tidegate_operators.airflow.waiting import GRACE_SECONDS, deadline

        trigger = VersionTrigger(
            tidegate_conn_id=self.tidegate_conn_id,
            servable=self.servable,
            version=as_version(self.version),
            deadline=deadline(self.timeout),
            poll_seconds=self.poke_interval,
        )
        timeout = timedelta(seconds=self.timeout + GRACE_SECONDS)
        self.defer(trigger=trigger, method_name="finish", timeout=timeout)
        return None

    def finish(self, context: Context, event: Mapping[str, Any]) -> Any:
        """What follows the wait; Airflow calls it."""
        from tidegate_serving.contract.errors import DeadlinePassed

        seen = self._look()
        with steps_errors():
            if seen.state is None:
                raise DeadlinePassed(f"{self._named()} was not available after {self.timeout:g} s: {seen.why}")
        return self._value(seen)


class SkewSensor(BaseSensorOperator):
    """Waits until the skew of what `servable` serves comes to one of `outcomes`, by default FAIL.

    `outcomes` are names, or a text of them with commas between. Each look judges the events of the last
    `window_seconds`. Returns what SkewReportOperator returns.
    """

    template_fields: Sequence[str] = (
        "servable",
        "outcomes",
        "window_seconds",
        "log_root",
        "report",
        "tidegate_conn_id",
    )
    ui_color = COLOUR

    def __init__(
        self,
        *,
        servable: str,
        outcomes: Sequence[str] | str = ("FAIL",),
        window_seconds: float | str = 86400.0,
        log_root: str | None = None,
        report: str | None = None,
        deferrable: bool | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.servable = servable
        self.outcomes = outcomes
        self.window_seconds = window_seconds
        self.log_root = log_root
        self.report = report
        self.deferrable = defers_by_default() if deferrable is None else deferrable
        self.tidegate_conn_id = tidegate_conn_id

    def poke(self, context: Context) -> PokeReturnValue:
        """Judges once; Airflow calls it."""
        value = self._judge()
        return PokeReturnValue(is_done=self._is_awaited(value), xcom_value=value)

    def _is_awaited(self, value: Mapping[str, Any]) -> bool:
        from tidegate_operators.airflow.skewness import as_outcomes

        with steps_errors():
            return value["outcome"] in as_outcomes(self.outcomes)

    def _judge(self) -> dict[str, Any]:
        from tidegate_operators.airflow.skewness import skew_of, to_xcom

        with steps_errors():
            until = datetime.now(UTC)
            version, found = skew_of(
                TidegateHook(self.tidegate_conn_id).engine,
                directory=None,
                servable=self.servable,
                log_root=self.log_root,
                since=until - timedelta(seconds=as_number(self.window_seconds, "window_seconds")),
                until=until,
                received_since=None,
                report=Path(self.report) if self.report else None,
            )
        return to_xcom(version, found)

    def execute(self, context: Context, event: Mapping[str, Any] | None = None) -> Any:
        """Looks first, and sleeps where that is needed; Airflow calls it, again after each wait."""
        if not self.deferrable:
            return super().execute(context)
        from tidegate_operators.airflow.skewness import as_outcomes
        from tidegate_operators.airflow.triggers import PauseTrigger
        from tidegate_operators.airflow.waiting import deadline
        from tidegate_serving.contract.errors import DeadlinePassed

        until = event["until"] if event else deadline(self.timeout)
        value = self._judge()
        if self._is_awaited(value):
            return value
        with steps_errors():
            if datetime.now(UTC) >= datetime.fromisoformat(until):
                raise DeadlinePassed(
                    f"the skew of {self.servable} was none of {', '.join(as_outcomes(self.outcomes))} in "
                    f"{self.timeout:g} s, it is {value['outcome']}: wait longer, or for another outcome"
                )
        pause = PauseTrigger(moment=deadline(self.poke_interval), carried={"until": until})
        self.defer(trigger=pause, method_name="execute")
        return None
