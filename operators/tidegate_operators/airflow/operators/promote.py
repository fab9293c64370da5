"""Makes a pushed version the one that ordinary clients get, as an Airflow task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.operators.fields import COLOUR, read_id
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context


class PromoteOperator(BaseOperator):
    """Moves label `stable` to the version in `directory` and waits until the version before it has unloaded."""

    template_fields: Sequence[str] = ("directory", "tidegate_conn_id")
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str,
        timeout_seconds: float = 120.0,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.timeout_seconds = timeout_seconds
        self.tidegate_conn_id = tidegate_conn_id

    def execute(self, context: Context) -> None:
        """Promotes; Airflow calls it."""
        from tidegate_operators.steps import promote

        with steps_errors():
            identity = read_id(self.directory)
            promote(
                control=TidegateHook(self.tidegate_conn_id).control,
                servable=identity.name,
                version=identity.version,
                timeout=self.timeout_seconds,
                reason=f"Airflow run {context['run_id']}",
            )
