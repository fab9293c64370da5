"""The connection of one extra source to the engine, which remembers what came through it.

An extra source calls target, owners and problems through its connection. When a reload removes the source or gives it
another table, the connection is closed, and what the source aspired, owned and reported is withdrawn or handed on.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, TidegateError
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.target import AspiredVersion


class SourceConnection:
    """A `Target`, `Claims` and `Reports` for one source; once closed, it passes nothing on."""

    def __init__(self, context: SourceContext) -> None:
        self._target = context.target
        self._owners = context.owners
        self._problems = context.problems
        self._lock = threading.RLock()
        self._closed = False
        self._titles: dict[str, str] = {}
        self._aspired: set[str] = set()
        self._inherited: set[str] = set()
        self._reported: set[tuple[str, str]] = set()

    # Called by the source

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[VersionReference]]) -> None:
        """Passes the call on and remembers it."""
        with self._lock:
            if self._closed:
                return
            self._inherited.discard(name)
            (self._aspired.add if versions else self._aspired.discard)(name)
            self._target.set_aspired_versions(name, versions)

    def owner(self, name: str) -> str:
        """As `Owners.owner`."""
        return self._owners.owner(name)

    def claim(self, name: str, source: str) -> None:
        """As `Owners.claim`; takes over what the table before owned. FailedPrecondition once it is closed."""
        with self._lock:
            if self._closed:
                raise FailedPrecondition(f"the {source} is no longer in the config and cannot have {name!r}")
            title = self._titles.get(name, source)
            if title != source:
                self._owners.release(name, title)
            self._owners.claim(name, source)
            self._titles[name] = source

    def release(self, name: str, source: str) -> None:
        """As `Owners.release`."""
        with self._lock:
            if self._titles.get(name) == source:
                del self._titles[name]
                self._owners.release(name, source)

    def report(self, servable: str, source: str, error: TidegateError) -> None:
        """As `SourceProblems.report`."""
        with self._lock:
            if not self._closed:
                self._reported.add((servable, source))
                self._problems.report(servable, source, error)

    def settle(self, servable: str, source: str) -> None:
        """As `SourceProblems.settle`."""
        with self._lock:
            if not self._closed:
                self._reported.discard((servable, source))
                self._problems.settle(servable, source)

    # Called by the engine

    def inherit(self, before: SourceConnection) -> None:
        """Takes over what a closed connection held, until the source calls for it or `give_up` ends it."""
        with self._lock, before._lock:
            self._titles = dict(before._titles)
            self._inherited = before._aspired | before._inherited

    def adopt(self, name: str) -> None:
        """Takes over one servable that another source let go of, as `inherit`."""
        with self._lock:
            self._inherited.add(name)

    @property
    def inherited(self) -> frozenset[str]:
        """Servables that have versions only because of the table before, or of another source that let go."""
        with self._lock:
            return frozenset(self._inherited)

    @property
    def aspired(self) -> frozenset[str]:
        """Servables of which this source itself has aspired versions."""
        with self._lock:
            return frozenset(self._aspired)

    def is_troubled(self, servable: str) -> bool:
        """Whether the source reports a problem of a servable; an empty name stands for the whole source."""
        with self._lock:
            return any(name == servable for name, _ in self._reported)

    def close(self) -> None:
        """Passes nothing on any more, and settles the problems that the source has reported."""
        with self._lock:
            self._closed = True
            reported, self._reported = self._reported, set()
        for servable, source in sorted(reported):
            self._problems.settle(servable, source)

    def give_up(self, names: Collection[str] | None = None) -> None:
        """Ends the versions and the ownership of these servables; None for all that the source has."""
        with self._lock:
            held = self._aspired | self._inherited
            for name in sorted(held if names is None else held & set(names)):
                self._aspired.discard(name)
                self._inherited.discard(name)
                if self._owners.owner(name) in ("", self._titles.get(name)):
                    self._target.set_aspired_versions(name, [])
            for name in [name for name in self._titles if name not in self._aspired | self._inherited]:
                self._owners.release(name, self._titles.pop(name))
