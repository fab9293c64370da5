"""What the hub's measures share: a registry, an engine and a world of tiny models, in folders that go away."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx
import mlflow
from tests.support.hub.process import HubProcess
from tests.support.hub.registry import hub_config, register, write_data
from tests.support.neighbours.mlflow_server import mlflow_server
from tests.support.release.world import Endpoints, World, engine, make_world

SECRET = "a secret of the hub's"
SAID = "since when is said meanwhile, then by itself"
_SINCE = re.compile(r'[Hh]as not answered since (?:<time datetime="([^"]+)"|(\S+ \S+) UTC)')
_SOON_SECONDS = 30.0


@dataclass(frozen=True)
class Place:
    """A real engine and a real registry with three versions of each model."""

    folder: Path
    world: World
    endpoints: Endpoints
    registry: str
    client: mlflow.MlflowClient

    def hub(
        self,
        name: str,
        *,
        address: str | None = None,
        more: str = "",
        poll_seconds: float = 15,
        timeout_seconds: float = 20,
    ) -> HubProcess:
        """A hub over both that is not started; `address` is the registry's, or of what stands before it."""
        secret = self.folder / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        lines = (
            f'address = "{address or self.registry}"',
            f'webhook_secret_file = "{secret}"',
            f"poll_seconds = {poll_seconds}",
            f"timeout_seconds = {timeout_seconds}",
        )
        config = hub_config(self.world, self.endpoints.control, self.folder, "\n".join(lines), more)
        return HubProcess(self.folder / name, config)

    def webhook(self, hub: HubProcess) -> None:
        """The registry tells the hub of aliases."""
        url = f"{hub.url}/hooks/mlflow"
        self.client.create_webhook(name="hub", url=url, secret=SECRET, events=["model_version_alias.created"])


@contextmanager
def place(*models: str) -> Iterator[Place]:
    """With these models registered."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-hub-") as name:
        folder = Path(name)
        (folder / "mlflow").mkdir()
        write_data(folder)
        (folder / "world").mkdir()
        world = make_world(folder / "world")
        with mlflow_server(folder / "mlflow") as address, engine(world) as endpoints:
            register(address, *models)
            yield Place(folder, world, endpoints, address, mlflow.MlflowClient(address))


def since_said(hub: HubProcess, path: str, began: datetime, status: int = 200) -> bool:
    """Whether a page, or an answer for programs, says that something has not answered since about `began`."""
    accept = "application/json" if path.startswith("/api") else "text/html"
    answer = httpx.get(f"{hub.url}{path}", headers={"accept": accept}, timeout=60, trust_env=False)
    found = _SINCE.search(answer.text)
    if answer.status_code != status or found is None:
        print(f"{path} answers {answer.status_code} and does not say since when: {answer.text[-3000:]}")
        return False
    since = datetime.fromisoformat(found[1] or f"{found[2]}+00:00")
    return abs((since - began).total_seconds()) <= _SOON_SECONDS
