"""Runs `tidegate serve` as a process of its own for the demo: starts it, waits until it is ready, ends it by SIGTERM.

The demo gives it a folder, a model repository and the validator's public key; out come the addresses of its endpoints.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.contract.errors import DeadlinePassed, FailedPrecondition, Unavailable

_READY_SECONDS = 60.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Addresses:
    """Where the engine answers, each as `host:port`, and the id of its process."""

    grpc: str
    rest: str
    control: str
    pid: int


class EngineProcess:
    """One engine with its configuration, state, log and output under `folder`."""

    def __init__(self, folder: Path, repository: Path, public_key: Path) -> None:
        self._folder, self._repository, self._public_key = folder, repository, public_key
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_root(self) -> Path:
        """Root of the inference log."""
        return self._folder / "log"

    @property
    def output(self) -> Path:
        """What the engine prints."""
        return self._folder / "engine.txt"

    def start(self) -> Addresses:
        """Starts the process and waits for its ready file. Unavailable, with its last words, when it ends instead."""
        self._folder.mkdir(parents=True, exist_ok=True)
        ready = self._folder / "ready.json"
        config = self._folder / "engine.toml"
        config.write_text(self._config(ready))
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidegate_serving.server", "--config", str(config)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._wait_for(ready)
        found = json.loads(ready.read_text())
        return Addresses(found["grpc"], found["rest"], found["control"], found["pid"])

    def stop(self) -> int:
        """Asks the engine to drain and end; its exit status. DeadlinePassed, and it is killed, when it does not."""
        if self._process is None:
            raise FailedPrecondition("the engine does not run: start it first")
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise DeadlinePassed(f"the engine did not end within {_STOP_SECONDS:.0f} s: see {self.output}") from error

    def kill(self) -> None:
        """Ends the process at once, where the demo itself failed."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _wait_for(self, ready: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _READY_SECONDS
        while not ready.is_file():
            if self._process.poll() is not None:
                words = self.output.read_text(errors="replace")[-2000:]
                raise Unavailable(
                    f"the engine ended with status {self._process.returncode} before it was ready: {words}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise DeadlinePassed(f"the engine was not ready within {_READY_SECONDS:.0f} s: see {self.output}")
            time.sleep(0.05)

    def _config(self, ready: Path) -> str:
        lines = {
            "grpc_address": "127.0.0.1:0",
            "rest_address": "127.0.0.1:0",
            "control_address": "127.0.0.1:0",
            "roots": [str(self._repository.absolute())],
            "state_directory": str((self._folder / "state").absolute()),
            "trusted_keys": [str(self._public_key.absolute())],
            "log_path": str(self.log_root.absolute()),
            "ready_file": str(ready.absolute()),
        }
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())
