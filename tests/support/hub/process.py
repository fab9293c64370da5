"""A hub as a process of its own, as users run it: `tidegate hub --config FILE`, stopped by its own process id."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx
from tests.support.eventually import eventually
from tests.support.server_process import ServerProcess

from tidegate_pipelines.hub.store import FINAL

_CLIENT = httpx.Client(timeout=30, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
"""One for all requests: making one, with all the authorities that it trusts, takes longer than a request."""


class HubProcess(ServerProcess):
    """`config` is the text of its TOML file. A second start listens where the first did."""

    ready_seconds = 60.0

    def __init__(self, folder: Path, config: str = "", environment: dict[str, str] | None = None) -> None:
        super().__init__(folder)
        self.config = folder / "hub.toml"
        self.config.write_text(f'directory = "{folder}/hub"\n{config}')
        self.more = environment or {}
        self.address = "127.0.0.1:0"
        self.url = ""

    def command(self) -> list[str]:
        hub = [sys.executable, "-m", "tidegate_pipelines.cli", "hub", "--config", str(self.config)]
        return [*hub, "--address", self.address, "--ready-file", str(self.ready_file)]

    def environment(self) -> dict[str, str]:
        ours = {key: value for key, value in super().environment().items() if not key.startswith("MLFLOW_")}
        return ours | self.more

    def ready(self, told: Any) -> None:
        self.url = told["address"]
        self.address = self.url.removeprefix("http://")

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at a path under /api/v1."""
        answer = _CLIENT.get(f"{self.url}/api/v1{path}", params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, body: Any) -> httpx.Response:
        """The answer of a path under /api/v1."""
        return _CLIENT.post(f"{self.url}/api/v1{path}", json=body)

    def release(self, model: str, version: int) -> dict[str, Any] | None:
        """The newest release of a version."""
        found = [one for one in self.get("/releases", model=model) if one["version"] == version]
        return found[0] if found else None

    def over(self, model: str, version: int, seconds: float = 120) -> dict[str, Any]:
        """The newest release of a version once it is over."""

        def ended() -> dict[str, Any] | None:
            found = self.release(model, version)
            return found if found is not None and found["state"] in FINAL else None

        try:
            found = eventually(ended, seconds)
        except AssertionError:
            raise AssertionError(f"{self.get('/releases')}\n{self.said()[-8000:]}") from None
        assert found is not None
        return found
