"""`tidegate model-server` as a process of its own, as a TensorFlow Serving user starts it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.engine.process import EngineProcess, free_port


class ModelServerProcess(EngineProcess):
    """Started with flags; a context manager that leaves nothing running. Ports are free ones unless flags name some."""

    def __init__(self, folder: Path, *flags: str, quiet_seconds: float = 0.1) -> None:
        super().__init__(folder)
        self.flags = list(flags)
        self.quiet_seconds = quiet_seconds
        for name in ("port", "rest_api_port"):
            if not any(flag.startswith(f"--{name}=") for flag in flags):
                self.flags.append(f"--{name}={free_port()}")

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tidegate_serving.model_server", *self.flags]

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            "TIDEGATE_READY_FILE": str(self.ready_file),
            "TIDEGATE_QUIET_SECONDS": str(self.quiet_seconds),
            "CUDA_VISIBLE_DEVICES": "",
        }
