"""Makes an engine's sources from its config, and tells them when the config changes while the engine runs.

The engine asks for them at its start, and at each reload first for a plan, which may fail, and then for its execution,
which may not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate_serving.admission import Admission, AdmissionRecords, AdmitUnverified, LiveAdmission, VerdictAdmission
from tidegate_serving.config import EngineConfig
from tidegate_serving.config.files import file_system_options
from tidegate_serving.contract.desired_state import CALLABLE, VersionReference
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control.locate import Locator
from tidegate_serving.control.operations import Operations
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.control.rollback import Rollback
from tidegate_serving.embedded.program import Place, Program
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.low_priority import verify_at_low_priority
from tidegate_serving.platforms.loader import Loader
from tidegate_serving.platforms.registry import PlatformRegistry, installed_platforms
from tidegate_serving.platforms.version_loader import VersionLoader
from tidegate_serving.runtime.assembly import Lifecycle, LiveConfig
from tidegate_serving.runtime.fetched_loader import FetchedLoader
from tidegate_serving.runtime.isolation import Isolation, platform_options
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.expiry import Expiry, Until
from tidegate_serving.sources.extra.sources import ExtraPlan, ExtraSources
from tidegate_serving.sources.file_system.source import FileSystemOptions, FileSystemSource
from tidegate_serving.sources.objects.pushed import PushStores
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblems
from tidegate_serving.sources.router import Adapter, Router
from tidegate_serving.sources.rpc.source import Fetch, RpcSource, VersionChecks
from tidegate_serving.sources.rpc.store import DesiredStateStore
from tidegate_serving.sources.static import StaticSource, StaticVersions, read_static
from tidegate_serving.sources.target import Source
from tidegate_serving.typed_config import nearest
from tidegate_serving.workers.gauges import WorkerGauges

_log = logging.getLogger(__name__)

ADMITTED_FILE = "admitted.jsonl"


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What the sources are to be told, read and checked."""

    admission: Admission
    registry: PlatformRegistry
    files: FileSystemOptions
    static: StaticVersions
    roots: tuple[Path, ...]
    extra: ExtraPlan = field(default_factory=ExtraPlan)


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources, who owns which servable, what stands in their way, the rules that they live by, and what people may
    decide over their heads."""

    owners: Owners
    reconciler: Reconciler
    operations: Operations
    rollback: Rollback
    problems: SourceProblems
    rpc: RpcSource
    expiry: Expiry
    pushed: PushStores
    files: FileSystemSource
    static: StaticSource
    extra: ExtraSources
    program: Program
    admission: LiveAdmission
    registry: PlatformRegistry
    router: Router[Loader]
    roots: list[Path]
    workers: WorkerGauges

    @property
    def all(self) -> tuple[Source, ...]:
        """In the order in which they start."""
        return (self.pushed, self.rpc, self.files, self.static, self.extra, self.expiry)

    def plan(self, config: EngineConfig) -> SourcePlan:
        """What another config would tell them. Raises what `plan_sources` and `make_source` raise; changes nothing."""
        return replace(plan_sources(config, self.registry.names), extra=self.extra.plan(config.sources))

    def in_force(self) -> SourcePlan:
        """What they live by now, as it was read; `extra` is empty, as it depends on what changes."""
        return SourcePlan(
            self.admission.now, self.registry.copy(), self.files.options, self.static.versions, tuple(self.roots)
        )

    def retell(self, plan: SourcePlan) -> None:
        """Lives by a new plan from now on. Who gives names up goes first, who may take them comes last; what one that
        comes may still want, once it has looked, stays until then."""
        self.admission.now = plan.admission
        self.registry.take_over(plan.registry)
        self.roots[:] = plan.roots
        self.extra.give_up(plan.extra)
        self.static.give_up(plan.static)
        self.files.give_up(plan.files, plan.admission)
        self.static.start()
        self.files.take_up()
        self.extra.take_up(plan.extra)
        for name in self.reconciler.leaving():
            if self.files.take_over(name) or self.extra.take_over(name):
                self.reconciler.stays(name)


def plan_sources(config: EngineConfig, added: Collection[str] = ()) -> SourcePlan:
    """Raises the contract's errors for keys, policies, paths and manifests that cannot be used; changes nothing.

    `added` are platforms that were added while the engine runs.
    """
    registry = installed_platforms(platform_options(config))
    _check_platforms(config, sorted({*registry.names, *added}))
    _check_settings(config, registry)
    return SourcePlan(
        admission=_admission(config),
        registry=registry,
        files=file_system_options(config),
        static=read_static([path.absolute() for path in config.directories]),
        roots=config.roots,
    )


def make_sources(live: LiveConfig, lifecycle: Lifecycle) -> Sources:
    """Sources that have not started. Raises what `plan_sources` raises, and for state on disk that cannot be read."""
    config = live.now
    plan = plan_sources(config)
    reconciler, owners, problems = lifecycle.reconciler, lifecycle.owners, lifecycle.problems
    roots, journal = list(plan.roots), lifecycle.journal
    for root in roots:
        if not root.is_dir():
            _log.warning("root %s is not there yet: what is pushed must lie under it, publish there or mend it", root)
    admission, available = LiveAdmission(plan.admission), _available(lifecycle.monitor)
    program = Program(Place(reconciler, lifecycle.monitor, lifecycle.manager.wanted, owners, config.allow_unverified))
    store = DesiredStateStore(config.state_directory)
    pushed = PushStores(config.push_stores, admission, lambda: _from_stores(store, reconciler))
    isolation = Isolation(live, lifecycle.front.batching)
    adapters = _adapters(plan.registry, admission, isolation, program, pushed.bring)
    router = Router(adapters, lifecycle.manager)
    locator = Locator(reconciler, admission.check)
    expiry = Expiry(lambda name: _end_expired(name, rpc, operations), lambda: _meant_until(store, reconciler))
    operations = Operations(reconciler, locator, journal, expiry.note)
    checks = VersionChecks(
        roots,
        admission,
        plan.registry.check,
        available,
        operations.permit,
        operations.blocks,
        pushed.bring,
        reconciler.known,
    )
    rpc = RpcSource(reconciler.set_desired_state, checks, store, owners, journal, expiry.note)
    return Sources(
        owners=owners,
        reconciler=reconciler,
        operations=operations,
        rollback=Rollback(reconciler, operations, locator, rpc, owners, available),
        problems=problems,
        rpc=rpc,
        expiry=expiry,
        pushed=pushed,
        files=FileSystemSource(plan.files, SourceContext(reconciler, plan.admission, owners, problems)),
        static=StaticSource(plan.static, reconciler, owners),
        extra=ExtraSources(
            config.sources,
            SourceContext(reconciler, admission, owners, problems, config.state_directory, reconciler.needed),
        ),
        program=program,
        admission=admission,
        registry=plan.registry,
        router=router,
        roots=roots,
        workers=isolation.gauges,
    )


def _end_expired(name: str, rpc: RpcSource, operations: Operations) -> None:
    operations.end_split(name)
    rpc.end_shadow(name)


def _meant_until(store: DesiredStateStore, reconciler: Reconciler) -> Iterator[Until]:
    """Shadows and splits from before the engine started."""
    yield from ((one.servable, one.shadow.until_us) for one in store.all() if one.shadow is not None)
    splits = ((name, reconciler.overrides(name).split) for name in sorted(reconciler.names()))
    yield from ((name, split.until_us) for name, split in splits if split is not None)


def _from_stores(store: DesiredStateStore, reconciler: Reconciler) -> set[ServableId]:
    """Versions that came from an object store and are desired, serve or are named by a decision."""
    found = [(one.servable, version) for one in store.all() for version in one.versions]
    found += [(name, version) for name in reconciler.names() for version in reconciler.needed(name)]
    return {ServableId(name, version.version) for name, version in found if version.address}


def _check_platforms(config: EngineConfig, known: Sequence[str]) -> None:
    for platform in config.platforms:
        if platform not in known:
            near = nearest(platform, known)
            hint = f"did you mean {near}?" if near else f"use one of {', '.join(known)}"
            raise InvalidInput(f"platforms.{platform} sets up a platform that there is not: {hint}")
    for name, model in config.models.items():
        if model.platform is not None and model.platform not in known:
            raise InvalidInput(
                f"Model {name} requests unsupported platform {model.platform}: use one of {', '.join(known)}"
            )


def _check_settings(config: EngineConfig, registry: PlatformRegistry) -> None:
    for platform, table in config.platforms.items():
        if table and platform in registry.names:
            try:
                registry.check_settings(platform)
            except InvalidInput as error:
                raise InvalidInput(f"[platforms.{platform}]: {error.message}") from error


def _admission(config: EngineConfig) -> Admission:
    if config.allow_unverified:
        return AdmitUnverified()
    paths = any(model.path is not None for model in config.models.values())
    serves = config.repository is not None or config.directories or config.roots or paths or config.sources
    if serves and not config.trusted_keys:
        raise InvalidInput(
            "no trusted_keys are set, so no version could ever be admitted: name the validator's public key "
            "or the key ring, or set allow_unverified for development"
        )
    state = config.state_directory
    admitted = AdmissionRecords(None if state is None else state / ADMITTED_FILE)
    return VerdictAdmission(config.trusted_keys, admitted, config.override_policy)


def _adapters(
    registry: PlatformRegistry,
    admission: Admission,
    isolation: Isolation,
    program: Program,
    fetch: Fetch,
) -> Callable[[str], Adapter[Loader]]:
    def adapter(id: ServableId, path: VersionReference) -> Loader:
        def admit(manifest: Manifest, digest: str) -> None:
            admission.check(path.directory, manifest, digest)

        elsewhere = isolation.elsewhere(id, apart=registry.runs_apart(path.platform))
        loader = VersionLoader(id, path, registry, admit, isolation.size_for(id), verify_at_low_priority, elsewhere)
        return FetchedLoader(id, path, loader, fetch) if path.address else loader

    def route(platform: str) -> Adapter[Loader]:
        if platform == CALLABLE:
            return program.loader
        registry.check(platform)
        return adapter

    return route


def _available(monitor: StateMonitor) -> Callable[[ServableId], bool]:
    def available(id: ServableId) -> bool:
        change = monitor.state(id)
        return change is not None and change.state is State.AVAILABLE

    return available
