"""The config of an engine that a program makes for itself, without a file.

`Engine()` asks; nothing is open, nothing is polled, and what the program loads is its own affair.
"""

from __future__ import annotations

from pathlib import Path

from tidegate_serving.config import EngineConfig


def embedded_config(grpc: str, rest: str, control: str, log: Path | str | None) -> EngineConfig:
    """Endpoints only where an address is named; models run in this program, versions need no verdict, but pickle stays
    forbidden."""
    return EngineConfig(
        grpc_address=grpc,
        rest_address=rest,
        control_address=control,
        log_path=None if log is None else Path(log),
        allow_unverified=True,
        drain_seconds=5.0,
        isolation="engine",
    )
