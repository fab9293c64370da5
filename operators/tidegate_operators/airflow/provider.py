"""Tells Airflow what this provider brings; Airflow calls it in every process, so it imports nothing heavy.

Airflow finds it through the entry point `apache_airflow_provider`; the answer follows provider_info.schema.json.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

_PACKAGE = "tidegate_operators.airflow"
_NAME = "Tidegate"
_ROOTS = {
    "description": (
        "Folders, with commas between, under which the API server finds reports of verdicts and skew: model "
        "repositories, and where skew reports are written. It shows them to users who are signed in."
    ),
    "version_added": None,
    "type": "string",
    "example": "/srv/models,/srv/reports",
    "default": "",
}


def get_provider_info() -> dict[str, Any]:
    """Name, operators, sensors, hooks, triggers, assets, link and connection forms of the provider."""
    return {
        "package-name": "tidegate",
        "name": "Tidegate",
        "description": "Validate a model version, push it into the Tidegate serving engine, learn from what it saw.",
        "versions": [metadata.version("tidegate")],
        "integrations": [{"integration-name": _NAME, "external-doc-url": "", "tags": ["service"]}],
        "operators": [{"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.operators"]}],
        "sensors": [{"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.sensors"]}],
        "hooks": [{"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.hook", f"{_PACKAGE}.signing"]}],
        "triggers": [{"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.triggers"]}],
        "asset-uris": [
            {
                "schemes": ["tidegate"],
                "handler": f"{_PACKAGE}.assets.sanitize_uri",
                "factory": f"{_PACKAGE}.assets.create_asset",
            }
        ],
        "extra-links": [f"{_PACKAGE}.links.VerdictReportLink", f"{_PACKAGE}.links.SkewReportLink"],
        "config": {"tidegate": {"description": "Tidegate's reports in Airflow.", "options": {"report_roots": _ROOTS}}},
        "connection-types": [_engine(), _signing()],
    }


def _engine() -> dict[str, Any]:
    return {
        "connection-type": "tidegate",
        "hook-class-name": f"{_PACKAGE}.hook.TidegateHook",
        "hook-name": "Tidegate",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "login"],
            "relabeling": {"host": "Control host", "port": "Control port", "password": "Token"},
            "placeholders": {"host": "127.0.0.1, or several with commas between", "port": "8502"},
        },
        "conn-fields": {
            "tls": _field(
                "TLS", "boolean", "The control port speaks TLS; a token needs it beyond this machine.", False
            ),
            "ca": _field("CA file", "string", "Who may sign the engine's certificate: a path on the workers."),
            "certificate": _field(
                "Certificate file", "string", "What a worker shows of itself: a path on the workers."
            ),
            "key": _field("Key file", "string", "The key of that certificate: a path on the workers."),
            "server_name": _field("Server name", "string", "In the certificate, where it is not the host."),
        },
    }


def _signing() -> dict[str, Any]:
    return {
        "connection-type": "tidegate_signing",
        "hook-class-name": f"{_PACKAGE}.signing.SigningHook",
        "hook-name": "Tidegate signing key",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "login"],
            "relabeling": {"host": "Vault address", "password": "Private key (PEM), or Vault token"},
            "placeholders": {"host": "https://vault.example.com:8200"},
        },
        "conn-fields": {
            "transit_key": _field("Transit key", "string", "The Ed25519 key in Vault that signs."),
            "transit_mount": _field("Transit mount", "string", "Where Vault's Transit engine is mounted: transit."),
            "namespace": _field("Vault namespace", "string", "Of Vault Enterprise."),
            "ca": _field("CA file", "string", "Who may sign Vault's certificate: a path on the workers."),
        },
    }


def _field(label: str, kind: str, description: str, default: Any = None) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], "default": default}}
