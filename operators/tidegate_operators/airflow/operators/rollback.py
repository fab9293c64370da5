"""Takes a servable back to an earlier version, as an Airflow task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.operators.fields import COLOUR
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context


class RollbackOperator(BaseOperator):
    """Takes `servable` back to `version`, or without one to the version that served before."""

    template_fields: Sequence[str] = ("servable", "version", "tidegate_conn_id")
    ui_color = COLOUR

    def __init__(
        self,
        *,
        servable: str,
        version: int | str | None = None,
        timeout_seconds: float = 120.0,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.servable = servable
        self.version = version
        self.timeout_seconds = timeout_seconds
        self.tidegate_conn_id = tidegate_conn_id

    def execute(self, context: Context) -> None:
        """Rolls back; Airflow calls it."""
        from tidegate_operators.steps import rollback

        with steps_errors():
            rollback(
                control=TidegateHook(self.tidegate_conn_id).control,
                servable=self.servable,
                version=int(self.version) if self.version not in (None, "") else None,
                timeout=self.timeout_seconds,
                reason=f"Airflow run {context['run_id']}",
            )
