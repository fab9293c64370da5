"""An engine as a process of its own, as users run it: started from a config file, stopped by its own process id."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.server_process import ServerProcess

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
            lines += [f"[{key}]", *(f"{json.dumps(name)} = {json.dumps(item)}" for name, item in value.items())]
    return "\n".join(lines) + "\n"


class EngineProcess(ServerProcess):
    """`python -m tidegate_serving.server`. `prefix` is what runs a command elsewhere, as the same process."""

    def __init__(self, folder: Path, **values: Any) -> None:
        super().__init__(folder)
        self.config = folder / "engine.toml"
        addresses = {"grpc_address": ANY, "rest_address": ANY, "control_address": ANY}
        plain = {key: self._plain(value) for key, value in {**addresses, **values}.items()}
        self.config.write_text(to_toml(plain))
        self.prefix: list[str] = []
        self.addresses: dict[str, Any] = {}

    @staticmethod
    def _plain(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        return [str(item) for item in value] if isinstance(value, tuple | list) else value

    def command(self) -> list[str]:
        server = [sys.executable, "-m", "tidegate_serving.server", "--config", str(self.config)]
        return [*self.prefix, *server, "--ready-file", str(self.ready_file)]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONFAULTHANDLER": "1"}

    def ready(self, told: Any) -> None:
        assert self.process is not None
        assert told["pid"] == self.process.pid
        self.addresses = told

    def client(self) -> Client:
        return Client(self.addresses["grpc"])

    def control(self) -> ControlClient:
        return ControlClient(self.addresses["control"])
