"""Tells Airflow what this provider brings; Airflow calls it in every process, so it imports nothing heavy.

Airflow finds it through the entry point `apache_airflow_provider`; the answer follows provider_info.schema.json.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

_PACKAGE = "tidegate_operators.airflow"


def get_provider_info() -> dict[str, Any]:
    """Name, operators, hook, link and connection form of the provider."""
    return {
        "package-name": "tidegate",
        "name": "Tidegate",
        "description": "Validate a model version, push it into the Tidegate serving engine, learn from what it saw.",
        "versions": [metadata.version("tidegate")],
        "integrations": [{"integration-name": "Tidegate", "external-doc-url": "", "tags": ["service"]}],
        "operators": [{"integration-name": "Tidegate", "python-modules": [f"{_PACKAGE}.operators"]}],
        "hooks": [{"integration-name": "Tidegate", "python-modules": [f"{_PACKAGE}.hook"]}],
        "extra-links": [f"{_PACKAGE}.links.VerdictReportLink"],
        "connection-types": [
            {
                "connection-type": "tidegate",
                "hook-class-name": f"{_PACKAGE}.hook.TidegateHook",
                "hook-name": "Tidegate",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "password", "extra"],
                    "relabeling": {"host": "Control host", "port": "Control port"},
                    "placeholders": {"host": "127.0.0.1", "port": "8502"},
                },
            }
        ],
    }
