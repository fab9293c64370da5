"""Pushes one version into the engine as an Airflow task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.operators.fields import COLOUR
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context


class ServeModelOperator(BaseOperator):
    """Pushes the version in `directory` into the engine beside the one that serves, and waits until it is AVAILABLE.

    `verdict` is what ValidateModelOperator returned (`validate.output`); a verdict file exchanged since then is
    refused. Ordinary clients keep getting the version they had until a PromoteOperator moves the label.
    """

    template_fields: Sequence[str] = ("directory", "verdict", "tidegate_conn_id")
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str,
        verdict: Mapping[str, str] | Any = None,
        timeout_seconds: float = 120.0,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.verdict = verdict
        self.timeout_seconds = timeout_seconds
        self.tidegate_conn_id = tidegate_conn_id

    def execute(self, context: Context) -> None:
        """Pushes; Airflow calls it."""
        from tidegate_operators.steps import push

        with steps_errors():
            push(
                directory=Path(self.directory),
                control=TidegateHook(self.tidegate_conn_id).control,
                verdict=self.verdict["verdict_digest"] if self.verdict else None,
                timeout=self.timeout_seconds,
                reason=f"Airflow run {context['run_id']}",
            )
