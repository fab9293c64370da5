"""An engine as a process of its own, as users run it: started from a config file, stopped by its own process id."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.eventually import eventually

from tidegate_serving.client import Client
from tidegate_serving.control_client import ControlClient

ANY = "127.0.0.1:0"


def free_port() -> int:
    """A port that nobody listens on now, below those that the system gives to connections and to port 0: until it is
    used, no other test can come by it unless it draws the same of twenty thousand."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def to_toml(values: Mapping[str, Any]) -> str:
    """Scalars, lists and one level of tables, which is all that an engine's config has at the top."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if not isinstance(value, Mapping)]
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"[{key}]", *(f"{name} = {json.dumps(item)}" for name, item in value.items())]
    return "\n".join(lines) + "\n"


class EngineProcess:
    """`python -m tidegate_serving.server`; a context manager that leaves nothing running. `prefix` is what runs a
    command elsewhere, as the same process."""

    def __init__(self, folder: Path, **values: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ready_file = folder / "ready.json"
        self.errors = folder / "stderr.txt"
        self.config = folder / "engine.toml"
        addresses = {"grpc_address": ANY, "rest_address": ANY, "control_address": ANY}
        plain = {key: self._plain(value) for key, value in {**addresses, **values}.items()}
        self.config.write_text(to_toml(plain))
        self.prefix: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.addresses: dict[str, Any] = {}

    @staticmethod
    def _plain(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        return [str(item) for item in value] if isinstance(value, tuple | list) else value

    def launch(self) -> Self:
        """Starts the process and does not wait for it."""
        command = [*self.prefix, sys.executable, "-m", "tidegate_serving.server", "--config", str(self.config)]
        command += ["--ready-file", str(self.ready_file)]
        env = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
        env["PYTHONFAULTHANDLER"] = "1"
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors, env=env)
        return self

    def start(self) -> Self:
        """Starts the process and waits for its ready file."""
        self.launch()
        return self.await_ready()

    def await_ready(self) -> Self:
        """Waits for the ready file of a process that was launched."""
        try:
            eventually(lambda: self.ready_file.exists() or self._ended(), 150)
        except AssertionError:
            self.wait(0)
            raise
        assert self.ready_file.exists(), self.said()
        self.addresses = json.loads(self.ready_file.read_text())
        assert self.process is not None
        assert self.addresses["pid"] == self.process.pid
        return self

    def said(self) -> str:
        """What it wrote to its error stream so far."""
        return self.errors.read_text(errors="replace")

    def terminate(self) -> None:
        """Sends SIGTERM and does not wait."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGTERM)

    def wait(self, seconds: float = 60) -> int:
        """Its exit status once it has ended. One that does not is aborted and shows where its threads stand."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(30)
            raise AssertionError(f"the engine did not end within {seconds} s:\n{self.said()}") from None

    def stop(self) -> int:
        """Ends it as a user would; its exit status."""
        self.terminate()
        return self.wait()

    def client(self) -> Client:
        return Client(self.addresses["grpc"])

    def control(self) -> ControlClient:
        return ControlClient(self.addresses["control"])

    def _ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended():
            self.stop()
        if kind is not None:
            print(self.said()[-8000:])
