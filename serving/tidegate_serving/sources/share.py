"""What one of the extra sources has said: which servables it wants something of, owns and has trouble with.

The source speaks through it to target, owners and problems; when the config takes the source away or gives it another
table, it is closed, and all that it said can be taken back or handed on.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, TidegateError
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblems
from tidegate_serving.sources.target import AspiredVersion, Target


class Share:
    """A `Target`, `Claims` and `Reports` for one source. Silent once it is closed."""

    def __init__(self, target: Target[VersionReference], owners: Owners, problems: SourceProblems) -> None:
        self._target = target
        self._owners = owners
        self._problems = problems
        self._lock = threading.RLock()
        self._closed = False
        self._titles: dict[str, str] = {}
        self._wanted: set[str] = set()
        self._heirs: set[str] = set()
        self._reported: set[tuple[str, str]] = set()

    # What the source says

    def set_aspired_versions(self, name: str, versions: Sequence[AspiredVersion[VersionReference]]) -> None:
        """Passes it on and remembers it."""
        with self._lock:
            if self._closed:
                return
            self._heirs.discard(name)
            (self._wanted.add if versions else self._wanted.discard)(name)
            self._target.set_aspired_versions(name, versions)

    def claim(self, name: str, source: str) -> None:
        """As `Owners.claim`, and over from the table before. FailedPrecondition once it is closed."""
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

    # What becomes of it

    def inherit(self, before: Share) -> None:
        """Takes over what a closed share held, until the source says something of it or `give_up` is called."""
        with self._lock, before._lock:
            self._titles = dict(before._titles)
            self._heirs = before._wanted | before._heirs

    def adopt(self, name: str) -> None:
        """Takes over what another source let go of, as `inherit`."""
        with self._lock:
            self._heirs.add(name)

    @property
    def heirs(self) -> frozenset[str]:
        """Servables that only the table before wanted something of."""
        with self._lock:
            return frozenset(self._heirs)

    @property
    def wanted(self) -> frozenset[str]:
        """Servables that this source itself wants something of."""
        with self._lock:
            return frozenset(self._wanted)

    def is_troubled(self, servable: str) -> bool:
        """Whether the source has said that something is wrong with a servable, empty for the whole source."""
        with self._lock:
            return any(name == servable for name, _ in self._reported)

    def close(self) -> None:
        """Says nothing more; its problems are nobody's any more."""
        with self._lock:
            self._closed = True
            reported, self._reported = self._reported, set()
        for servable, source in sorted(reported):
            self._problems.settle(servable, source)

    def give_up(self, names: Collection[str] | None = None) -> None:
        """Wants nothing more of these servables, or of any, and owns them no more."""
        with self._lock:
            held = self._wanted | self._heirs
            for name in sorted(held if names is None else held & set(names)):
                self._wanted.discard(name)
                self._heirs.discard(name)
                if self._owners.owner(name) in ("", self._titles.get(name)):
                    self._target.set_aspired_versions(name, [])
            for name in [name for name in self._titles if name not in self._wanted | self._heirs]:
                self._owners.release(name, self._titles.pop(name))
