"""The button on a task that opens the report of the verdict; Airflow asks for its address once the task has run.

It reads the operator's rendered `directory` and leads to the page that the gate wrote beside it, where a web server has
the model repository under the operator's `report_url`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate_operators.airflow.compat import BaseOperatorLink
from tidegate_serving.contract.repository import report_directory

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import BaseOperator


class VerdictReportLink(BaseOperatorLink):
    """Leads to `index.html` of the version's report: below `report_url`, else as a `file:` address."""

    name = "Verdict report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """The address of the page, empty where the operator names no version directory."""
        named = getattr(operator, "directory", None)
        directory = named.get("directory") if isinstance(named, Mapping) else named
        if not directory:
            return ""
        page = report_directory(Path(directory).absolute()) / "index.html"
        prefix = getattr(operator, "report_url", None)
        if not prefix:
            return page.as_uri()
        return "/".join([prefix.rstrip("/"), *map(quote, page.parts[-3:])])
