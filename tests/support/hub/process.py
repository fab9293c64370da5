"""A hub as a process of its own, as users run it: `tidegate hub --config FILE`, stopped by its own process id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from tests.support.eventually import eventually

from tidegate_pipelines.hub.store import FINAL


class HubProcess:
    """A context manager that leaves nothing running; `config` is the text of its TOML file."""

    def __init__(self, folder: Path, config: str = "", environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "hub.toml"
        self.config.write_text(f'directory = "{folder}/hub"\n{config}')
        self.ready_file = folder / "ready.json"
        self.output = folder / "output.txt"
        self.environment = environment or {}
        self.address = "127.0.0.1:0"
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Starts it and waits until it answers; a second start listens where the first did."""
        self.ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tidegate_pipelines.cli", "hub", "--config", str(self.config)]
        command += ["--address", self.address, "--ready-file", str(self.ready_file)]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("TIDEGATE_", "MLFLOW_"))}
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env | self.environment
            )
        eventually(lambda: self.ready_file.is_file() or self._ended(), 60)
        assert self.ready_file.is_file(), self.said()
        self.url = json.loads(self.ready_file.read_text())["address"]
        self.address = self.url.removeprefix("http://")
        return self

    def said(self) -> str:
        """What it wrote so far."""
        return self.output.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL, to the hub alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """SIGTERM; its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at a path under /api/v1."""
        answer = httpx.get(f"{self.url}/api/v1{path}", params=query, timeout=30, trust_env=False)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, body: Any) -> httpx.Response:
        """The answer of a path under /api/v1."""
        return httpx.post(f"{self.url}/api/v1{path}", json=body, timeout=30, trust_env=False)

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
