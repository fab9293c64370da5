"""Runs the gates over one version as an Airflow task; XCom gets where the signed verdict lies, and its digest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.links import VerdictReportLink
from tidegate_operators.airflow.operators.fields import COLOUR, given
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context

EVIDENCE = ("held_out", "label_column", "baseline", "training", "log_root", "policy", "entity")
"""The fields of `tidegate_validation.evidence.Evidence`, each of which is an argument."""


class ValidateModelOperator(BaseOperator):
    """Runs the gates over the version in `directory` and signs the verdict; a verdict that denies fails the task.

    `private_key` is the validator's PEM file; the rest is the evidence, see `tidegate.Evidence`, with paths as text.
    The version that serves under the same name is the baseline, and its inference log feeds the skew gate, unless
    `baseline` and `log_root` name others. Returns, through XCom, `{"verdict_path": ..., "verdict_digest": ...}`.
    """

    template_fields: Sequence[str] = ("directory", "private_key", *EVIDENCE, "tidegate_conn_id")
    operator_extra_links = (VerdictReportLink(),)
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str,
        held_out: str,
        private_key: str,
        label_column: str | None = None,
        baseline: str | None = None,
        training: str | None = None,
        log_root: str | None = None,
        policy: str | None = None,
        entity: str | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.private_key = private_key
        self.held_out = held_out
        self.label_column = label_column
        self.baseline = baseline
        self.training = training
        self.log_root = log_root
        self.policy = policy
        self.entity = entity
        self.tidegate_conn_id = tidegate_conn_id

    def execute(self, context: Context) -> dict[str, str]:
        """Validates; Airflow calls it."""
        from tidegate_operators.steps import Evidence, against_serving, require_allowed, validate

        control = TidegateHook(self.tidegate_conn_id).control
        directory = Path(self.directory)
        with steps_errors():
            evidence = against_serving(Evidence(**given(self, EVIDENCE)), directory=directory, control=control)
            validated = validate(directory, evidence, private_key=Path(self.private_key))
            verdict = {"verdict_path": str(validated.verdict_path), "verdict_digest": validated.verdict_digest}
            if not validated.verdict.allowed:
                context["ti"].xcom_push(key="return_value", value=verdict)
            require_allowed(validated)
        return verdict
