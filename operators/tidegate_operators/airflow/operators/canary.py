"""Tries a pushed version on live traffic, as an Airflow task, which fails unless the canary passes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate_operators.airflow.compat import BaseOperator, defers_by_default
from tidegate_operators.airflow.fields import COLOUR, as_number, read_version, run_of
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.lineage import Lineage, directory_of
from tidegate_operators.airflow.refusals import steps_errors
from tidegate_operators.airflow.with_lineage import WithLineage

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context
    from tidegate_operators.steps import CanaryRule

_QUICK_SECONDS = 5.0


class CanaryOperator(WithLineage, BaseOperator):
    """Tries the pushed version on live traffic and fails unless it answers enough of it without errors or delay.

    `mode` is shadow (it answers copies) or traffic (a growing share of clients); left out, the rule's, else shadow.
    `directory` is a path or the output of the task before. `rule` holds fields of `tidegate_operators.steps.CanaryRule`
    that differ from its defaults, such as `{"pairs": 500, "within_seconds": 60}`. A version that does not pass is taken
    out of the engine. With `deferrable` a canary that is not decided within seconds sleeps in the triggerer and looks
    again every `poll_seconds`. A task that was killed goes on where it was. Returns servable, version, directory,
    manifest_digest, outcome, sentence and the counts.
    """

    template_fields: Sequence[str] = ("directory", "mode", "rule", "poll_seconds", "tidegate_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"rule": "json"}
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str | Mapping[str, Any] | Any,
        mode: str = "",
        rule: Mapping[str, Any] | None = None,
        poll_seconds: float | str = 30.0,
        deferrable: bool | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.mode = mode
        self.rule = rule
        self.poll_seconds = poll_seconds
        self.deferrable = defers_by_default() if deferrable is None else deferrable
        self.tidegate_conn_id = tidegate_conn_id

    def wanted(self) -> CanaryRule:
        """The rule, with the mode that the operator names, where it names one."""
        from tidegate_operators.steps import CanaryRule

        return CanaryRule.from_dict({**(self.rule or {}), **({"mode": self.mode} if self.mode else {})})

    def lineage(self) -> Lineage:
        """What the task reads and makes, for OpenLineage."""
        return Lineage(version=directory_of(self.directory))

    def execute(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Observes; Airflow calls it, again after each wait."""
        from tidegate_operators.airflow.triggers import PauseTrigger
        from tidegate_operators.airflow.waiting import deadline
        from tidegate_operators.steps import CanaryTurn, canary_turn, require_passed

        with steps_errors():
            pause = as_number(self.poll_seconds, "poll_seconds")
            version = read_version(self.directory)
            found = canary_turn(
                directory=version.here(),
                control=TidegateHook(self.tidegate_conn_id).engine,
                turn=CanaryTurn(run_of(context), _QUICK_SECONDS if self.deferrable else math.inf),
                rule=self.wanted(),
            )
            if found is not None:
                counts = {name: value for name, value in found.to_dict().items() if name not in ("format", "checks")}
                result = {**version.to_xcom(), **counts}
                if not found.allowed:
                    context["ti"].xcom_push(key="return_value", value=result)
                require_passed(found)
                return result
        self.defer(trigger=PauseTrigger(moment=deadline(pause), carried={}), method_name="execute")
        return {}
