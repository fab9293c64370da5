"""Operators that declare a step's parameters as template fields and call the step.

DAG files get them through `tidegate.airflow`; each finds the engine through a `tidegate` connection. XCom carries a
verdict's path and digest, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.links import VerdictReportLink
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context
    from tidegate_serving.contract.servable import ServableId

_COLOUR = "#d7ecf2"


class ValidateModelOperator(BaseOperator):
    """Runs the gates over the version in `directory` and signs the verdict; a verdict that denies fails the task.

    `held_out` and `training` are Parquet files, `private_key` the validator's PEM file, `policy` a TOML file. The version
    that serves under the same name is the baseline, and its inference log feeds the skew gate, unless `baseline` and
    `log_root` name others. Returns, through XCom, `{"verdict_path": ..., "verdict_digest": ...}`.
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
    ui_color = _COLOUR

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
            baseline = _path(self.baseline) or find_baseline(control=control, directory=directory)
            validated = validate(
                directory=directory,
                held_out=Path(self.held_out),
                private_key=Path(self.private_key),
                baseline=baseline,
                training=_path(self.training),
                log_root=_path(self.log_root) or (find_log(control=control) if baseline else None),
                policy=_path(self.policy),
            )
            verdict = {"verdict_path": str(validated.verdict_path), "verdict_digest": validated.verdict_digest}
            if not validated.verdict.allowed:
                context["ti"].xcom_push(key="return_value", value=verdict)
            require_allowed(validated)
        return verdict


class ServeModelOperator(BaseOperator):
    """Pushes the version in `directory` into the engine beside the one that serves, and waits until it is AVAILABLE.

    `verdict` is what ValidateModelOperator returned (`validate.output`); a verdict file that was exchanged since then is
    refused. Ordinary clients keep getting the version they had until a PromoteOperator moves the label.
    """

    template_fields: Sequence[str] = ("directory", "verdict", "tidegate_conn_id")
    ui_color = _COLOUR

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


class CanaryOperator(BaseOperator):
    """Copies traffic to the pushed version and fails unless it answers enough of it without errors or delay.

    `rule` holds fields of `tidegate_operators.steps.CanaryRule` that differ from its defaults, such as
    `{"pairs": 500, "within_seconds": 60}`. A version that does not pass is taken out of the engine.
    """

    template_fields: Sequence[str] = ("directory", "rule", "tidegate_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"rule": "json"}
    ui_color = _COLOUR

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
            id = _id(self.directory)
            require_passed(
                canary(
                    control=TidegateHook(self.tidegate_conn_id).control,
                    servable=id.name,
                    version=id.version,
                    rule=CanaryRule.from_dict(self.rule or {}),
                )
            )


class PromoteOperator(BaseOperator):
    """Moves label `stable` to the version in `directory` and waits until the version before it has unloaded."""

    template_fields: Sequence[str] = ("directory", "tidegate_conn_id")
    ui_color = _COLOUR

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
            id = _id(self.directory)
            promote(
                control=TidegateHook(self.tidegate_conn_id).control,
                servable=id.name,
                version=id.version,
                timeout=self.timeout_seconds,
                reason=f"Airflow run {context['run_id']}",
            )


class RollbackOperator(BaseOperator):
    """Takes `servable` back to `version`, or without one to the version that served before."""

    template_fields: Sequence[str] = ("servable", "version", "tidegate_conn_id")
    ui_color = _COLOUR

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


class SkewReportOperator(BaseOperator):
    """Compares what the engine logged for the version in `directory` with its training profile, between two times.

    `since` and `until` are ISO 8601 times of the event, empty for no bound; `report` is the directory for the page. The
    task fails only where `fail_on_skew` is set and the outcome denies.
    """

    template_fields: Sequence[str] = ("directory", "log_root", "since", "until", "report", "tidegate_conn_id")
    ui_color = _COLOUR

    def __init__(
        self,
        *,
        directory: str,
        report: str,
        since: str = "",
        until: str = "",
        log_root: str | None = None,
        fail_on_skew: bool = False,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.report = report
        self.since = since
        self.until = until
        self.log_root = log_root
        self.fail_on_skew = fail_on_skew
        self.tidegate_conn_id = tidegate_conn_id

    def execute(self, context: Context) -> None:
        """Reports; Airflow calls it."""
        from tidegate_operators.steps import find_log, parse_time, require_no_skew, skew

        with steps_errors():
            control = TidegateHook(self.tidegate_conn_id).control
            found = skew(
                directory=Path(self.directory),
                log_root=_path(self.log_root) or find_log(control=control),
                since=parse_time(self.since),
                until=parse_time(self.until),
                report=Path(self.report),
            )
            if self.fail_on_skew:
                require_no_skew(found)


def _path(value: str | None) -> Path | None:
    return Path(value) if value else None


def _id(directory: str) -> ServableId:
    from tidegate_serving.contract.manifest import read_manifest

    return read_manifest(Path(directory))[0].id
