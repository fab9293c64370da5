"""`tidegate model-server` as a process of its own, as a TensorFlow Serving user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

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

    def launch(self) -> Self:
        """Starts the process and does not wait for it."""
        command = [sys.executable, "-m", "tidegate_serving.model_server", *self.flags]
        env = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
        env.update(
            PYTHONFAULTHANDLER="1",
            TIDEGATE_READY_FILE=str(self.ready_file),
            TIDEGATE_QUIET_SECONDS=str(self.quiet_seconds),
            CUDA_VISIBLE_DEVICES="",
        )
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors, env=env)
        return self
