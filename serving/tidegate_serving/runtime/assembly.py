"""Makes an engine's parts from its config and joins them; nothing runs yet.

The engine starts and stops them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from tidegate_serving.config import EngineConfig
from tidegate_serving.control.override_store import OverrideStore
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.embedded.program import NAME as PROGRAM
from tidegate_serving.files.state import make_folder
from tidegate_serving.journal.journal import Journal
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.manager import AspiredVersionsManager, ManagerOptions
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.lifecycle.policy import POLICIES
from tidegate_serving.lifecycle.pool import ThreadPool
from tidegate_serving.lifecycle.retry import RetryPauses
from tidegate_serving.low_priority import enter_low_priority
from tidegate_serving.platforms.memory_need import RAM
from tidegate_serving.requests.plane_front import PlaneFront
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblems
from tidegate_serving.sources.rpc.source import NAME as RPC_SOURCE

_THREADS_PER_PROCESSOR = 4


@dataclass(slots=True)
class LiveConfig:
    """The config that the engine lives by now."""

    now: EngineConfig


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The reconciler and the manager with what they work on."""

    events: EventBus
    monitor: StateMonitor
    front: PlaneFront
    reconciler: Reconciler
    owners: Owners
    manager: AspiredVersionsManager
    journal: Journal
    problems: SourceProblems
    pools: tuple[ThreadPool, ...]

    @property
    def load_pool(self) -> ThreadPool:
        """Where versions load; wide until the first ones are settled."""
        return self.pools[0]

    @property
    def unload_pool(self) -> ThreadPool:
        """Where versions unload; wide once nothing is served any more."""
        return self.pools[1]


def make_lifecycle(live: LiveConfig) -> Lifecycle:
    """Bus, monitor, front, reconciler and manager, each knowing the next. Threads of the pools wait for work.

    Raises the contract's errors for a log folder or for state on disk that cannot be used.
    """
    config, problems, owners, events = live.now, SourceProblems(), Owners(), EventBus()
    store = OverrideStore(config.state_directory)
    if config.log_path is not None:
        make_folder(config.log_path, "log_path")
    if config.prediction_log_path is not None:
        make_folder(config.prediction_log_path, "prediction_log_path")
    front = PlaneFront(config, lambda name, version: manager.released(name, version))
    pools = (
        ThreadPool("tidegate-load", threads_beside_nothing(config), enter_low_priority, config.load_seconds),
        ThreadPool("tidegate-unload", config.unload_threads, enter_low_priority, config.load_seconds),
        ThreadPool("tidegate-reconciler", 1),
    )

    def keeps_previous(name: str) -> bool:
        model = live.now.models.get(name)
        configured = None if model is None else model.keep_previous
        wanted = live.now.keep_previous if configured is None else configured
        return wanted and owners.owner(name) != PROGRAM  # which takes away at once what it replaces

    def follows_stable(name: str) -> bool:
        return live.now.follow_stable or owners.owner(name) == RPC_SOURCE  # a canary's steps rely on the label

    labels = {name: model.labels for name, model in config.models.items()}
    reconciler = Reconciler(front, store, pools[2].submit, keeps_previous, labels, follows_stable)
    manager = AspiredVersionsManager(reconciler, events, pools[0], pools[1], manager_options(config))
    journal, monitor = Journal(config.state_directory), StateMonitor(events)
    return Lifecycle(events, monitor, front, reconciler, owners, manager, journal, problems, pools)


def threads_beside_nothing(config: EngineConfig) -> int:
    """For loads at the start and for unloads at the end, when no request is there that they could hold up."""
    wide = config.initial_load_threads or _THREADS_PER_PROCESSOR * (os.cpu_count() or 1)
    return max(wide, config.load_threads, config.unload_threads)


def manager_options(config: EngineConfig) -> ManagerOptions:
    """How versions follow each other, after a config; `AspiredVersionsManager.reconfigure` takes them live."""
    chosen = {name: model.policy for name, model in config.models.items() if model.policy is not None}
    return ManagerOptions(
        policy=POLICIES[config.policy],
        policies={name: POLICIES[policy] for name, policy in chosen.items()},
        retry=RetryPauses(config.retry_first_seconds, config.retry_most_seconds, retries=config.load_retries),
        memory_limits={**config.device_limits_bytes, RAM: config.memory_limit_bytes},
    )
