"""Writes the skew report of one version and one span of time, as an Airflow task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.operators.fields import COLOUR
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context


class SkewReportOperator(BaseOperator):
    """Compares what the engine logged for the version in `directory` with its training profile, between two times.

    `since` and `until` are ISO 8601 times of the event, empty for no bound; `report` is the directory for the page. The
    task fails only where `fail_on_skew` is set and the outcome denies.
    """

    template_fields: Sequence[str] = ("directory", "log_root", "since", "until", "report", "tidegate_conn_id")
    ui_color = COLOUR

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
        from tidegate_operators.steps import parse_time, require_log, require_no_skew, skew

        with steps_errors():
            control = TidegateHook(self.tidegate_conn_id).control
            found = skew(
                directory=Path(self.directory),
                log_root=Path(self.log_root) if self.log_root else require_log(control=control),
                since=parse_time(self.since),
                until=parse_time(self.until),
                report=Path(self.report),
            )
            if self.fail_on_skew:
                require_no_skew(found)
