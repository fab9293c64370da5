"""Pushes one version into the engine as an Airflow task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate_operators.airflow.compat import BaseOperator, defers_by_default
from tidegate_operators.airflow.fields import COLOUR, ENGINE_FIELDS, as_number, as_version, asked_by, read_version
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.lineage import Lineage, directory_of
from tidegate_operators.airflow.refusals import steps_errors
from tidegate_operators.airflow.with_lineage import WithLineage

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context

_QUICK_SECONDS = 5.0


class ServeModelOperator(WithLineage, BaseOperator):
    """Pushes the version in `directory` into the engine beside the one that serves, and waits until it is AVAILABLE.

    `directory` is a path or the output of the task before. `verdict` is the output of the ValidateModelOperator, which
    `directory=validate.output` brings along; a verdict file exchanged since then is refused. Ordinary clients keep
    getting the version they had until a PromoteOperator moves the label. With `deferrable` a load of more than a few
    seconds is waited for in the triggerer. With `store`, a model repository in an object store (s3://bucket/models),
    version and verdict are copied there and the engine fetches them, which then needs no folder of the worker's; so
    it does a version that an earlier task has put into one. Returns servable, version, directory, manifest_digest,
    beside, revision and, where it lies in a store, its address.
    """

    template_fields: Sequence[str] = ("directory", "verdict", "store", "timeout_seconds", *ENGINE_FIELDS)
    template_fields_renderers: ClassVar[dict[str, str]] = {"verdict": "json"}
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str | Mapping[str, Any] | Any,
        verdict: Mapping[str, Any] | Any = None,
        store: str | None = None,
        timeout_seconds: float | str = 120.0,
        deferrable: bool | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        requested_by: str | None = None,
        reason: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.verdict = verdict
        self.store = store
        self.timeout_seconds = timeout_seconds
        self.deferrable = defers_by_default() if deferrable is None else deferrable
        self.tidegate_conn_id = tidegate_conn_id
        self.requested_by = requested_by
        self.reason = reason

    def lineage(self) -> Lineage:
        """What the task reads and makes, for OpenLineage."""
        return Lineage(version=directory_of(self.directory), judges=True)

    def execute(self, context: Context) -> dict[str, Any]:
        """Pushes; Airflow calls it."""
        from tidegate_operators.steps import await_push, begin_push, finish_push

        with steps_errors():
            version = read_version(self.directory).in_store(self.store)
            engine = TidegateHook(self.tidegate_conn_id).engine
            verdict = self.verdict or (self.directory if isinstance(self.directory, Mapping) else {})
            timeout = as_number(self.timeout_seconds, "timeout_seconds")
            pushed = begin_push(
                directory=version.address or version.directory,
                control=engine,
                verdict=verdict.get("verdict_digest"),
                judged_against=as_version(verdict.get("judged_against"), "judged_against"),
                **asked_by(self, context),
            )
            found = {**version.to_xcom(), "beside": pushed.beside, "revision": pushed.revision}
            if not self.deferrable or timeout <= _QUICK_SECONDS:
                finish_push(pushed, control=engine, timeout=timeout)
                return found
            if await_push(pushed, control=engine, patience=_QUICK_SECONDS):
                return found
        self._defer(found, pushed.labelled, timeout - _QUICK_SECONDS)
        return found

    def _defer(self, found: Mapping[str, Any], labelled: Mapping[str, int], seconds: float) -> None:
        from tidegate_operators.airflow.triggers import VersionTrigger
        from tidegate_operators.airflow.waiting import GRACE_SECONDS, deadline

        trigger = VersionTrigger(
            tidegate_conn_id=self.tidegate_conn_id,
            servable=found["servable"],
            version=found["version"],
            deadline=deadline(seconds),
            carried={"found": dict(found), "labelled": dict(labelled)},
        )
        self.defer(
            trigger=trigger,
            method_name="finish",
            timeout=timedelta(seconds=seconds + GRACE_SECONDS),
        )

    def finish(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """What follows the wait; Airflow calls it."""
        from tidegate_operators.steps import Push, finish_push
        from tidegate_serving.contract.servable import ServableId

        found, labelled = event["found"], event["labelled"]
        with steps_errors():
            identity = ServableId(found["servable"], found["version"])
            pushed = Push(identity, found["manifest_digest"], found["beside"], found["revision"], labelled)
            waited = as_number(self.timeout_seconds, "timeout_seconds") if event["state"] == "DEADLINE" else 0.0
            engine = TidegateHook(self.tidegate_conn_id).engine
            finish_push(pushed, control=engine, timeout=_QUICK_SECONDS, waited=waited)
        return dict(found)
