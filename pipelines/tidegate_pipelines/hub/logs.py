"""What a hub and its releases write to stderr: what they do themselves, and of libraries only what went wrong."""

from __future__ import annotations

import logging
import os

from tidegate_serving import log_lines

_OURS = ("tidegate_operators", "tidegate_pipelines", "tidegate_serving", "tidegate_validation", "uvicorn")
_PROGRESS = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"


def log_to_stderr() -> None:
    """For this process, from now on."""
    log_lines.log_to_stderr(logging.WARNING)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    os.environ.setdefault(_PROGRESS, "false")
