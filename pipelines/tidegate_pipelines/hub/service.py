"""The hub that runs: every room on one database, the routes of all, and what goes on in the background."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI

from tidegate_operators.steps.keys import new_key
from tidegate_pipelines.hub.access import Access
from tidegate_pipelines.hub.access.patience import PatientProtocol
from tidegate_pipelines.hub.alerts import AlertBook, Courier
from tidegate_pipelines.hub.api import api_router
from tidegate_pipelines.hub.api.decisions import decision_routes
from tidegate_pipelines.hub.api.metrics import metrics_router
from tidegate_pipelines.hub.api.sign_in import sign_in_routes
from tidegate_pipelines.hub.app import Hub, MakeRouter, create_app
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.audit.keeper import AuditKeeper
from tidegate_pipelines.hub.config import HubConfig, Runner
from tidegate_pipelines.hub.decisions import Approvals, Decisions
from tidegate_pipelines.hub.engines.watch import EngineWatch
from tidegate_pipelines.hub.pages import add_pages
from tidegate_pipelines.hub.registry.reconcile import no_longer_wanted
from tidegate_pipelines.hub.registry.watch import RegistryWatch
from tidegate_pipelines.hub.registry.webhook import webhook_router
from tidegate_pipelines.hub.releases.airflow_runs import AirflowRuns
from tidegate_pipelines.hub.releases.follow import Follower
from tidegate_pipelines.hub.releases.kubeflow_runs import KubeflowRuns
from tidegate_pipelines.hub.releases.supervisor import Supervisor
from tidegate_pipelines.hub.store import MOST_AT_ONCE, Database
from tidegate_serving.config.open_files import allow_many
from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.files import write_json

logger = logging.getLogger(__name__)
ROUTERS: tuple[MakeRouter, ...] = (api_router, metrics_router)
"""The routes of every room that has some; the registry's webhooks come with what looks at it."""
_STOP_SECONDS = 5


class Service:
    """One replica of the hub over `config`: what runs in the background, and the application that stands before it."""

    def __init__(self, config: HubConfig) -> None:
        self.config = config
        self.database = Database(config.database_url)
        name = config.name or f"{socket.gethostname()}-{os.getpid()}"
        self._releases = _releases(config, self.database, name)
        self._registry: RegistryWatch | None = None
        if config.mlflow.address:
            self._registry = RegistryWatch(config, self.database, self._releases.wake)
        self.audit = AuditLog(self.database)
        self.access = Access(config.access, self.database, self.audit)
        self.decisions = Decisions(self.database, config, self.audit)
        self._rounds = (
            EngineWatch(config, self.database).rounds,
            AuditKeeper(self.database, self.audit, config.audit, config.connections).rounds,
            Courier(AlertBook(self.database, config.alerts), config.address_for_people).rounds,
        )
        self.app = self._application()

    def prepare(self) -> None:
        """Folders, the validator's key where no other is named, and tables that are up to date."""
        self.config.directory.mkdir(parents=True, exist_ok=True)
        self.config.repository.mkdir(exist_ok=True)
        key = self.config.private_key
        if self.config.releases.private_key is None and not key.exists():
            new_key(key.parent, name=key.stem)
        self.database.migrate()
        gc.freeze()  # What is imported stays: looking through it for garbage again and again takes a tenth of a second.

    def _application(self) -> FastAPI:
        hub = Hub(self.config, self.database, self.access, self.audit, self._releases.wake)
        routers = [*ROUTERS, lambda _: sign_in_routes(self.access)]
        routers.append(lambda hub: decision_routes(hub, self.access, self.audit, self.decisions))
        if self._registry is not None:
            watch = self._registry
            routers.append(lambda hub: webhook_router(self.config.mlflow, hub.database, watch.look_at))

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            # More threads would wait for a connection, and have everybody else wait for the interpreter.
            current_default_thread_limiter().total_tokens = MOST_AT_ONCE
            self._start()
            try:
                yield
            finally:
                # Requests may have all threads that are there for them.
                await asyncio.to_thread(self._stop)

        app = create_app(hub, routers, lifespan, self.access)
        add_pages(app, hub)
        return app

    def _start(self) -> None:
        self._releases.start()
        for rounds in self._rounds:
            rounds.start()
        if self._registry is not None:
            self._registry.start()

    def _stop(self) -> None:
        if self._registry is not None:
            self._registry.stop()
        for rounds in self._rounds:
            rounds.stop()
        self._releases.stop()
        self.database.close()


def _releases(config: HubConfig, database: Database, name: str) -> Supervisor | Follower:
    if config.run.runner is Runner.HERE:
        return Supervisor(config, database, name)
    wanted, approvals = partial(no_longer_wanted, config), Approvals(database, config.approval)
    if config.run.runner is Runner.KUBEFLOW:
        poll_seconds = config.kubeflow.poll_seconds
        return Follower(config, database, name, KubeflowRuns(config), wanted, poll_seconds, approvals)
    airflow = AirflowRuns(config.airflow)
    return Follower(config, database, name, airflow, wanted, config.airflow.poll_seconds, approvals)


def listen(address: str) -> socket.socket:
    """A socket that listens at `host:port`, or `[host]:port` for a host of IPv6; `[::]` takes IPv4 as well.
    FailedPrecondition where it cannot."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), int(port)), family=family, dualstack_ipv6=host == "[::]")
    except OSError as error:
        raise FailedPrecondition(
            f"the hub's address {address} cannot be listened on ({error}): end what listens there, or name another "
            "address of this machine"
        ) from error


def run(config: HubConfig, ready_file: Path | None = None, on_ready: Callable[[str], None] = print) -> None:
    """Serves until SIGTERM or Ctrl-C. `on_ready` hears the address, and `ready_file` gets it as JSON."""
    allow_many(0)
    config.access.check_certificate()
    with listen(config.address) as listener:
        host, scheme = config.address.rpartition(":")[0], "https" if config.access.tls else "http"
        address = f"{scheme}://{host}:{listener.getsockname()[1]}"
        config = config if config.public_url else replace(config, public_url=address)
        service = Service(config)
        service.prepare()

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                if ready_file is not None:
                    write_json(ready_file, {"address": address, "pid": os.getpid()})
                on_ready(address)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _ended_well)
        settings = uvicorn.Config(
            service.app,
            http=PatientProtocol,
            loop="asyncio",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ssl_certfile=config.access.certificate,
            ssl_keyfile=config.access.key,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        Server(settings).run([listener])


def _ended_well(number: int, frame: FrameType | None) -> None:
    """uvicorn sends itself the signal again once it has stopped in order, which must not kill it."""
