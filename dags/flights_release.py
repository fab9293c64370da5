"""Releases one version of the flights model: judge it, push it beside the one that serves, try it, make it stable."""

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from tidegate.airflow import CanaryOperator, PromoteOperator, ServeModelOperator, ValidateModelOperator

REQUIRED = {name: Param(type="string") for name in ("directory", "held_out", "private_key")}
PARAMS = {**REQUIRED, "training": None, "policy": None, "canary": {"pairs": 100, "within_seconds": 60}}
FROM = {name: f"{{{{ params.{name} }}}}" for name in PARAMS if name != "canary"}
START = datetime(2026, 1, 1, tzinfo=UTC)

with DAG("flights_release", schedule=None, start_date=START, params=PARAMS, render_template_as_native_obj=True) as dag:
    validate = ValidateModelOperator(task_id="validate", **FROM)
    serve = ServeModelOperator(task_id="serve", directory=validate.output)
    canary = CanaryOperator(task_id="canary", directory=serve.output, rule="{{ params.canary }}")
    promote = PromoteOperator(task_id="promote", directory=canary.output)
