"""Runs the gates over one version as an Airflow task.

In come paths, as templates; out goes, through XCom, where the signed verdict lies and its digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.links import VerdictReportLink
from tidegate_operators.airflow.operators.fields import COLOUR, optional_path
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context


class ValidateModelOperator(BaseOperator):
    """Runs the gates over the version in `directory` and signs the verdict; a verdict that denies fails the task.

    `held_out` and `training` are Parquet files, `private_key` the validator's PEM file, `policy` a TOML file. The
    version that serves under the same name is the baseline, and its inference log feeds the skew gate, unless
    `baseline` and `log_root` name others. Returns, through XCom, `{"verdict_path": ..., "verdict_digest": ...}`.
    """

    template_fields: Sequence[str] = (
        "directory",
        "held_out",
        "private_key",
        "training",
        "policy",
        "baseline",
        "log_root",
        "tidegate_conn_id",
    )
    operator_extra_links = (VerdictReportLink(),)
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str,
        held_out: str,
        private_key: str,
        training: str | None = None,
        policy: str | None = None,
        baseline: str | None = None,
        log_root: str | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.held_out = held_out
        self.private_key = private_key
        self.training = training
        self.policy = policy
        self.baseline = baseline
        self.log_root = log_root
        self.tidegate_conn_id = tidegate_conn_id

    def execute(self, context: Context) -> dict[str, str]:
        """Validates; Airflow calls it."""
        from tidegate_operators.steps import find_baseline, find_log, require_allowed, validate

        control = TidegateHook(self.tidegate_conn_id).control
        directory = Path(self.directory)
        with steps_errors():
            baseline = optional_path(self.baseline) or find_baseline(control=control, directory=directory)
            validated = validate(
                directory=directory,
                held_out=Path(self.held_out),
                private_key=Path(self.private_key),
                baseline=baseline,
                training=optional_path(self.training),
                log_root=optional_path(self.log_root) or (find_log(control=control) if baseline else None),
                policy=optional_path(self.policy),
            )
            verdict = {"verdict_path": str(validated.verdict_path), "verdict_digest": validated.verdict_digest}
            if not validated.verdict.allowed:
                context["ti"].xcom_push(key="return_value", value=verdict)
            require_allowed(validated)
        return verdict
