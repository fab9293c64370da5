"""The buttons on a task that open the report of its verdict or of its skew; Airflow asks for their addresses once the
task has run.

They lead below the operator's `report_url`, where a web server has the reports; else to the page that Airflow's own API
server shows, where `[tidegate] report_roots` is configured; else to the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate_operators.airflow.compat import BaseOperatorLink
from tidegate_operators.airflow.reports import address_of
from tidegate_serving.contract.repository import report_directory

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import BaseOperator

_PAGE = "index.html"


class VerdictReportLink(BaseOperatorLink):
    """Leads to `index.html` of the version's report."""

    name = "Verdict report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """The address of the page, empty where the operator names no version directory, or a version's address
        (s3://, file://) whose report no server shows."""
        named = getattr(operator, "directory", None)
        directory = named.get("directory") if isinstance(named, Mapping) else named
        if not directory:
            return ""
        page = report_directory(Path(directory).absolute()) / _PAGE
        return _address(operator, page, is_address="://" in str(directory))


class SkewReportLink(BaseOperatorLink):
    """Leads to `index.html` of a skew report."""

    name = "Skew report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """The address of the page, empty where the operator writes none."""
        folder = getattr(operator, "report", None)
        return _address(operator, Path(folder).absolute() / _PAGE) if folder else ""


def _address(operator: BaseOperator, page: Path, *, is_address: bool = False) -> str:
    prefix = getattr(operator, "report_url", None)
    if prefix:
        return "/".join([prefix.rstrip("/"), *map(quote, page.parts[-3:])])
    return address_of(page) or ("" if is_address else page.as_uri())
