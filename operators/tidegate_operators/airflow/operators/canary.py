"""Lets a pushed version answer copies of live traffic, as an Airflow task, which fails unless the canary passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.operators.fields import COLOUR, read_id
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context


class CanaryOperator(BaseOperator):
    """Copies traffic to the pushed version and fails unless it answers enough of it without errors or delay.

    `rule` holds fields of `tidegate_operators.steps.CanaryRule` that differ from its defaults, such as
    `{"pairs": 500, "within_seconds": 60}`. A version that does not pass is taken out of the engine.
    """

    template_fields: Sequence[str] = ("directory", "rule", "tidegate_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"rule": "json"}
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str,
        rule: Mapping[str, Any] | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.rule = rule
        self.tidegate_conn_id = tidegate_conn_id

    def execute(self, context: Context) -> None:
        """Observes; Airflow calls it."""
        from tidegate_operators.steps import CanaryRule, canary, require_passed

        with steps_errors():
            identity = read_id(self.directory)
            require_passed(
                canary(
                    control=TidegateHook(self.tidegate_conn_id).control,
                    servable=identity.name,
                    version=identity.version,
                    rule=CanaryRule.from_dict(self.rule or {}),
                )
            )
