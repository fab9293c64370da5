"""Takes a servable back to an earlier version, as an Airflow task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.assets import emit, servable_asset, with_outlet
from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.fields import COLOUR, ENGINE_FIELDS, as_number, as_version, asked_by, task_of
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.operators.promote import OUTLET
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context


class RollbackOperator(BaseOperator):
    """Takes `servable` back to `version`, or without one to the version that served before.

    With `from_version` nothing changes where that does not serve any more. A task that was killed and runs again goes
    back once. Emits the asset `servable_asset(NAME)`. Returns servable, version, ended and sentence.
    """

    template_fields: Sequence[str] = ("servable", "version", "from_version", "timeout_seconds", *ENGINE_FIELDS)
    ui_color = COLOUR

    def __init__(
        self,
        *,
        servable: str,
        version: int | str | None = None,
        from_version: int | str | None = None,
        timeout_seconds: float | str = 120.0,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        requested_by: str | None = None,
        reason: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**with_outlet(kwargs, OUTLET))
        self.servable = servable
        self.version = version
        self.from_version = from_version
        self.timeout_seconds = timeout_seconds
        self.tidegate_conn_id = tidegate_conn_id
        self.requested_by = requested_by
        self.reason = reason

    def execute(self, context: Context) -> dict[str, Any]:
        """Rolls back; Airflow calls it."""
        from tidegate_operators.steps import rollback

        with steps_errors():
            asked = asked_by(self, context)
            if self.reason:  # by the task in it a second run of it is recognised
                asked["reason"] = f"{self.reason} ({task_of(context)})"
            done = rollback(
                control=TidegateHook(self.tidegate_conn_id).engine,
                servable=self.servable,
                version=as_version(self.version),
                from_version=as_version(self.from_version, "from_version"),
                timeout=as_number(self.timeout_seconds, "timeout_seconds"),
                once=True,
                **asked,
            )
        found = {"servable": done.id.name, "version": done.id.version}
        emit(self, context, servable_asset(self.servable, self.tidegate_conn_id), found)
        return {**found, "ended": list(done.ended), "sentence": done.sentence}
