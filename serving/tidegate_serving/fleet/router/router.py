"""The part of a fleet's router that is not per request: routes come from etcd, wishes and usage go there.

Where etcd is away the router goes on by the routes that it has. Each time that its key's lease is renewed it says what
it forwarded since.
"""

from __future__ import annotations

import time

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.etcd.presence import Presence
from tidegate_serving.fleet.state.feed import Feed
from tidegate_serving.fleet.state.keys import ROUTES, USAGE, WANTED, FleetKeys
from tidegate_serving.fleet.state.routes import Routes
from tidegate_serving.fleet.state.view import Usage, usage_bytes, wanted_bytes
from tidegate_serving.requests.forwarder import Forwarder
from tidegate_serving.sources.problems import Reports

PROBLEM = "etcd"


class FleetRouter:
    """`name` is what the router is called in the fleet, `seconds` how long its usage counts after its process died."""

    def __init__(self, etcd: Etcd, keys: FleetKeys, name: str, seconds: int, problems: Reports) -> None:
        self._etcd = etcd
        self._keys = keys
        self._problems = problems
        self._forwarder: Forwarder | None = None
        self._applied = b""
        self._requests: dict[str, int] = {}
        self._counted_at = time.monotonic()
        self._feed = Feed(etcd, keys.prefix, self._read)
        self._presence = Presence(etcd, keys.key(USAGE, name), self._usage, seconds, self._told)

    def want(self, model: str) -> None:
        """A request waits for a model that is loaded nowhere."""
        try:
            self._etcd.commit({}, {self._keys.key(WANTED, model): wanted_bytes(time.time())})
        except TidegateError as error:
            self._told(error)

    def start(self, forwarder: Forwarder) -> None:
        """Has it follow the fleet's routes from now on."""
        self._forwarder = forwarder
        self._feed.start()
        self._presence.start()

    def stop(self) -> None:
        """Says nothing more, and leaves the routes as they are."""
        self._presence.stop()
        self._feed.stop()

    def _read(self, error: TidegateError | None) -> None:
        self._told(error)
        written = self._feed.view.routes
        if error is None and written and written != self._applied and self._forwarder is not None:
            self._applied = written
            try:
                routes = Routes.from_bytes(written)
                self._forwarder.set_states(routes.states)
                self._forwarder.set_refused(routes.refused)
                self._forwarder.apply(routes.nodes, routes.models)
            except (TidegateError, ValueError) as refused:
                kept = InvalidInput(f"the fleet's new routes cannot be used, the old ones stay: {refused}")
                self._problems.report("", ROUTES, kept)
            else:
                self._problems.settle("", ROUTES)

    def _usage(self) -> bytes:
        """Requests per second of each model that was ever asked for, since the last time."""
        stats = {} if self._forwarder is None else self._forwarder.stats()
        before, at, now = self._requests, self._counted_at, time.monotonic()
        self._requests, self._counted_at = {name: numbers[0] for name, numbers in stats.items()}, now
        seconds = max(now - at, 0.001)
        return usage_bytes(
            {
                name: Usage(round((requests - before.get(name, 0)) / seconds, 1), used_at)
                for name, (requests, _, _, _, used_at) in stats.items()
                if requests
            }
        )

    def _told(self, error: TidegateError | None) -> None:
        if error is None:
            self._problems.settle("", PROBLEM)
        else:
            self._problems.report("", PROBLEM, error)
