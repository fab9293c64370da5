"""The plugin by which Airflow's API server serves reports, which Airflow finds by the entry point `airflow.plugins`."""

from __future__ import annotations

from tidegate_operators.airflow.compat import AirflowPlugin
from tidegate_operators.airflow.reports import PREFIX, application


class ReportsPlugin(AirflowPlugin):
    """Mounts the reports."""

    name = "tidegate"
    fastapi_apps = [{"app": application, "url_prefix": PREFIX, "name": "Tidegate reports"}]  # noqa: RUF012 - Airflow's
