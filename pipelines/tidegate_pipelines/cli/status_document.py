"""The status of an engine as a JSON document, `tidegate.status/1`.

`tidegate status --json` prints it and the support bundle holds it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate_serving.control_client import EngineStatus, ServableStatus


def status_document(found: EngineStatus) -> dict[str, object]:
    """Everything that the engine says of itself."""
    return {
        "format": "tidegate.status/1",
        "grpc": found.grpc_address,
        "rest": found.rest_address,
        "log": found.log_path,
        "counters": dict(found.counters),
        "problems": [asdict(problem) for problem in found.problems],
        "servables": [_servable(servable) for servable in found.servables],
    }


def _servable(servable: ServableStatus) -> dict[str, object]:
    return {
        "name": servable.servable,
        "source": servable.source,
        "source_problem": servable.source_problem,
        "desired": {
            **servable.desired.to_dict(),
            "unusable": {str(version): error.message for version, error in servable.desired.unusable.items()},
        },
        "ordinary": servable.ordinary,
        "previous": servable.previous,
        "kept": list(servable.kept),
        "overrides": [asdict(override) for override in servable.overrides],
        "disabled": servable.disabled,
        "versions": [
            {
                "version": version.version,
                "state": version.state.name,
                "labels": list(version.labels),
                "since_us": version.since_us,
                "error_code": version.error_code,
                "error_message": version.error_message,
                "path": version.path,
                "manifest_digest": version.manifest_digest,
                "admitted": None if version.admitted is None else asdict(version.admitted),
                "notes": list(version.notes),
            }
            for version in servable.versions
        ],
    }
