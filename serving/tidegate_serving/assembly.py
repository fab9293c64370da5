"""Makes an engine's parts from its config and joins them; nothing runs yet.

The engine starts and stops what comes out of here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.manager import AspiredVersionsManager, ManagerOptions
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.lifecycle.policy import POLICIES
from tidegate_serving.lifecycle.pool import ThreadPool
from tidegate_serving.lifecycle.resources import RAM
from tidegate_serving.lifecycle.retry import RetryPauses
from tidegate_serving.platforms.loader import Loader
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.registry import PlatformRegistry, installed_platforms
from tidegate_serving.platforms.version_loader import VersionLoader
from tidegate_serving.requests.plane import Door
from tidegate_serving.sources.admission import Admission, AdmittedDigests, AdmitUnverified, VerdictAdmission
from tidegate_serving.sources.file_system import FileSystemSource, RepositoryOptions
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.router import Adapter, Router
from tidegate_serving.sources.rpc import RpcSource, VersionChecks
from tidegate_serving.sources.rpc_state import WishStore
from tidegate_serving.sources.static import StaticSource
from tidegate_serving.sources.target import Source, VersionPath
from tidegate_serving.sources.version_policy import parse_version_policy

if TYPE_CHECKING:
    from tidegate_serving.inference_log.writer import LogWriter

ADMITTED_FILE = "admitted.json"
_THREADS_PER_PROCESSOR = 4


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The manager with what it works on."""

    events: EventBus
    monitor: StateMonitor
    door: Door
    manager: AspiredVersionsManager
    pools: tuple[ThreadPool, ...]

    @property
    def load_pool(self) -> ThreadPool:
        """Where versions load; wide until the first ones are settled."""
        return self.pools[0]


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources, the RPC Source among them, and who owns which servable."""

    owners: Owners
    rpc: RpcSource
    all: tuple[Source, ...]


def make_lifecycle(config: EngineConfig) -> Lifecycle:
    """Bus, monitor, door and manager, each knowing the next. Threads of the pools wait for work."""
    events = EventBus()
    monitor = StateMonitor(events)
    door = Door(config, lambda name, version: manager.released(name, version), _writer(config))
    first_load = config.initial_load_threads or _THREADS_PER_PROCESSOR * (os.cpu_count() or 1)
    pools = (
        ThreadPool("tidegate-load", max(first_load, config.load_threads)),
        ThreadPool("tidegate-unload", config.unload_threads),
    )
    manager = AspiredVersionsManager(door, events, pools[0], pools[1], manager_options(config))
    return Lifecycle(events, monitor, door, manager, pools)


def manager_options(config: EngineConfig) -> ManagerOptions:
    """How versions follow each other, after a config; `AspiredVersionsManager.reconfigure` takes them live."""
    chosen = {name: model.policy for name, model in config.models.items() if model.policy is not None}
    return ManagerOptions(
        policy=POLICIES[config.policy],
        policies={name: POLICIES[policy] for name, policy in chosen.items()},
        retry=RetryPauses(config.retry_first_seconds, config.retry_most_seconds),
        memory_limits={**config.device_limits_bytes, RAM: config.memory_limit_bytes},
    )


def _writer(config: EngineConfig) -> LogWriter | None:
    if config.log_path is None:
        return None
    from tidegate_serving.inference_log.writer import LogWriter

    return LogWriter(config.log_path)


def make_sources(config: EngineConfig, lifecycle: Lifecycle) -> Sources:
    """Sources in the order in which they start. Raises the contract's errors for keys, policies and state on disk."""
    owners = Owners()
    admission = _admission(config)
    registry = installed_platforms(PlatformOptions(allow_pickle=config.allow_pickle))
    router = Router(_adapters(registry, admission), lifecycle.manager)
    found: list[Source] = []
    if config.repository is not None:
        found.append(FileSystemSource(_repository(config), router, admission, owners))
    if config.directories:
        found.append(StaticSource([path.absolute() for path in config.directories], router, owners))
    rpc = RpcSource(
        router,
        lifecycle.door,
        VersionChecks(config.roots, admission, registry.check, _available(lifecycle.monitor)),
        WishStore(config.state_directory),
        owners,
    )
    return Sources(owners, rpc, (rpc, *found))


def _admission(config: EngineConfig) -> Admission:
    if config.allow_unverified:
        return AdmitUnverified()
    serves = config.repository is not None or config.directories or config.roots
    if serves and not config.trusted_keys:
        raise InvalidInput(
            "no trusted_keys are set, so no version could ever be admitted: name the validator's public key, "
            "or set allow_unverified for development"
        )
    state = config.state_directory
    return VerdictAdmission(config.trusted_keys, AdmittedDigests(None if state is None else state / ADMITTED_FILE))


def _adapters(registry: PlatformRegistry, admission: Admission) -> Callable[[str], Adapter[Loader]]:
    def adapter(id: ServableId, path: VersionPath) -> Loader:
        def admit(manifest: Manifest, digest: str) -> None:
            admission.check(path.directory, manifest, digest)

        return VersionLoader(id, path, registry, admit)

    def route(platform: str) -> Adapter[Loader]:
        registry.check(platform)
        return adapter

    return route


def _repository(config: EngineConfig) -> RepositoryOptions:
    if config.repository is None:
        raise InvalidInput("no repository is set")
    return RepositoryOptions(
        root=config.repository.absolute(),
        poll_seconds=config.poll_seconds,
        policy=parse_version_policy(config.versions),
        policies={
            name: parse_version_policy(model.versions)
            for name, model in config.models.items()
            if model.versions is not None
        },
    )


def _available(monitor: StateMonitor) -> Callable[[ServableId], bool]:
    def available(id: ServableId) -> bool:
        change = monitor.state(id)
        return change is not None and change.state is State.AVAILABLE

    return available
