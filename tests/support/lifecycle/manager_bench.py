"""A manager stepped by hand, with fakes for everything around it: no threads, no clock, no data plane."""

from __future__ import annotations

from dataclasses import replace

from tests.support.lifecycle.fakes import FakeClock, FakeLoader, FakeMap, StateLog, StepPool

from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.manager import AspiredVersionsManager, ManagerOptions
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.lifecycle.retry import FOR_EVER, RetryPauses
from tidegate_serving.sources.target import AspiredVersion

STEADY = RetryPauses(first=1.0, most=8.0, chance=lambda: 0.0)


class Bench:
    """A manager with everything around it."""

    def __init__(self, options: ManagerOptions | None = None, retries: int = FOR_EVER) -> None:
        self.clock = FakeClock()
        self.map = FakeMap()
        self.loads, self.unloads = StepPool(), StepPool()
        self.log = StateLog()
        self.loaders: dict[int, FakeLoader] = {}
        self.events = events = EventBus()
        self.monitor = StateMonitor(events)
        events.subscribe(self.log)
        self.resident = 0
        retry = replace(STEADY, retries=retries)
        given = replace(options or ManagerOptions(), retry=retry, clock=self.clock, resident=lambda: self.resident)
        self.manager = AspiredVersionsManager(self.map, events, self.loads, self.unloads, given)

    def want(self, *numbers: int, name: str = "m", origin: object = None) -> None:
        self.manager.set_aspired_versions(name, [self.version(number, name, origin) for number in numbers])

    def version(self, number: int, name: str = "m", origin: object = None) -> AspiredVersion[FakeLoader]:
        loader = self.loaders.setdefault(number, FakeLoader(ServableId(name, number)))
        return AspiredVersion(loader.id, loader, origin=origin)

    def settle(self) -> None:
        """Ticks, loads, releases and unloads until nothing moves."""
        for _ in range(20):
            self.manager.tick()
            moved = self.loads.run_all() + self.release() + self.unloads.run_all()
            if not moved:
                return
        raise AssertionError("the manager never comes to rest")

    def release(self) -> int:
        retired, self.map.retired = self.map.retired, []
        for gone in retired:
            self.manager.released(gone.name, gone.version)
        return len(retired)

    def state(self, number: int, name: str = "m") -> State | None:
        change = self.monitor.state(ServableId(name, number))
        return change.state if change else None

    def error(self, number: int) -> str:
        change = self.monitor.state(ServableId("m", number))
        assert change is not None
        return change.error_code

    def live(self) -> list[str]:
        return sorted(map(str, self.map.live))
