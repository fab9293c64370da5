"""Writes the skew report of one version and one span of time, as an Airflow task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.assets import emit, skew_asset, with_outlet
from tidegate_operators.airflow.compat import BaseOperator, defers_by_default
from tidegate_operators.airflow.fields import COLOUR, as_bool, as_whole
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.links import SkewReportLink
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context

OUTLET = "tidegate-skew"


class SkewReportOperator(BaseOperator):
    """Compares what the engine logged for a version with its training profile, between two times.

    The version is the one in `directory` (a path or the output of a task before), or the one that ordinary clients of
    `servable` get. `since` and `until` are ISO 8601 times of the event, `received_since` of its arrival, empty for no
    bound; `report` is the directory for the page, if there is to be one. `watch` is a folder that remembers earlier
    windows, for drift over them with one false alarm per `windows_per_alarm` windows; `previous` is the directory of
    the version that a rollback would go to, to say whether that would help; `labels` is a file of labels by request id,
    as far as they are known, to say how well the version does. With `deferrable` an `until` that lies ahead is waited
    for in the triggerer. An outcome of FAIL emits the asset `skew_asset(NAME)`; the task fails only
    where `fail_on_skew` is set and the outcome denies, and then emits nothing. Returns servable, version, directory,
    manifest_digest, outcome, sentence, findings (those that are not PASS) and page.
    """

    template_fields: Sequence[str] = (
        "directory",
        "servable",
        "log_root",
        "since",
        "until",
        "received_since",
        "report",
        "watch",
        "windows_per_alarm",
        "previous",
        "labels",
        "fail_on_skew",
        "tidegate_conn_id",
    )
    operator_extra_links = (SkewReportLink(),)
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str | Mapping[str, Any] | Any = None,
        servable: str | None = None,
        report: str | None = None,
        since: str = "",
        until: str = "",
        received_since: str = "",
        log_root: str | None = None,
        watch: str | None = None,
        windows_per_alarm: int | str = 365,
        previous: str | None = None,
        labels: str | None = None,
        fail_on_skew: bool | str = False,
        deferrable: bool | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**with_outlet(kwargs, OUTLET))
        self.directory = directory
        self.servable = servable
        self.report = report
        self.since = since
        self.until = until
        self.received_since = received_since
        self.log_root = log_root
        self.watch = watch
        self.windows_per_alarm = windows_per_alarm
        self.previous = previous
        self.labels = labels
        self.fail_on_skew = fail_on_skew
        self.deferrable = defers_by_default() if deferrable is None else deferrable
        self.tidegate_conn_id = tidegate_conn_id

    def execute(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Reports; Airflow calls it, again after a wait."""
        from tidegate_operators.airflow.skewness import OverTime, skew_of, to_xcom
        from tidegate_operators.airflow.triggers import PauseTrigger
        from tidegate_operators.steps import parse_time, require_no_skew

        with steps_errors():
            until = parse_time(self.until)
            if self.deferrable and until is not None and until > datetime.now(UTC):
                self.defer(trigger=PauseTrigger(moment=until.isoformat(), carried={}), method_name="execute")
            version, found = skew_of(
                TidegateHook(self.tidegate_conn_id).engine,
                directory=self.directory,
                servable=self.servable,
                log_root=self.log_root,
                since=parse_time(self.since),
                until=until,
                received_since=parse_time(self.received_since),
                report=Path(self.report) if self.report else None,
                over_time=OverTime(
                    watch=Path(self.watch) if self.watch else None,
                    windows_per_alarm=as_whole(self.windows_per_alarm, "windows_per_alarm"),
                    previous=Path(self.previous) if self.previous else None,
                    labels=self.labels or None,
                ),
            )
            result = to_xcom(version, found)
            if result["outcome"] == "FAIL":
                emit(self, context, skew_asset(version.id.name, self.tidegate_conn_id), result)
            if as_bool(self.fail_on_skew, "fail_on_skew"):
                context["ti"].xcom_push(key="return_value", value=result)
                require_no_skew(found)
        return result
