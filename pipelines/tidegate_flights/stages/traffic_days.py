"""Step 3, and the days of step 6: starts the replay of June, and sends one day rightly or in the wrong unit.

Takes the engine's addresses and the prepared rows; hands the summary what the traffic client counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate_flights.engine_process import Addresses
from tidegate_flights.features import SERVABLE
from tidegate_flights.folders import Folders
from tidegate_flights.replay_plan import ReplayPlan
from tidegate_flights.stages.prepare import JUNE
from tidegate_flights.traffic import ReplayResult, Traffic


@dataclass(frozen=True)
class TrafficMaker:
    """Makes runs of the traffic client against one engine."""

    folders: Folders
    addresses: Addresses

    def june(self, corrupt: int) -> Traffic:
        """June over and over, until it is stopped."""
        return self._make(JUNE, loop=True, corrupt=corrupt)

    def day(self, name: str) -> ReplayResult:
        """The rows of that name, once."""
        traffic = self._make(name, loop=False, corrupt=0)
        traffic.start()
        return traffic.finish()

    def _make(self, name: str, *, loop: bool, corrupt: int) -> Traffic:
        folder = self.folders.traffic
        plan = ReplayPlan(
            model=SERVABLE,
            grpc=self.addresses.grpc,
            rest=self.addresses.rest,
            rows=str(self.folders.rows(name)),
            expected=str(self.folders.expected(name)),
            result=str(folder / f"{name}.json"),
            request_prefix=name,
            loop=loop,
            corrupt=corrupt,
        )
        return Traffic(plan, folder)
