"""The file system source: watches base paths and wants what lies there complete and admitted.

Base paths are named one by one (PATH/VERSION) or discovered under a repository (ROOT/NAME/VERSION). Each servable is
looked at on its own and told to the target on its own: one that cannot be read keeps what it last wanted.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate_serving.admission.admission import Admission
from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import NotFound, TidegateError, Unavailable
from tidegate_serving.contract.servable import check_name
from tidegate_serving.sources.owners import Claims, Owners
from tidegate_serving.sources.polling import Poller
from tidegate_serving.sources.problems import Reports, SourceProblems
from tidegate_serving.sources.target import Target
from tidegate_serving.sources.watched import PathVersion, Watched, WatchOptions

NAME = "file system source"
FIRST_LOOK_SECONDS = 10.0
_ROOT = ""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileSystemOptions:
    """What to watch: `paths` by servable name, and whatever appears under `root`; both may be there.

    `watch` is for every servable that `overrides` does not name.
    """

    root: Path | None = None
    paths: Mapping[str, Path] = field(default_factory=dict)
    watch: WatchOptions = field(default_factory=WatchOptions)
    overrides: Mapping[str, WatchOptions] = field(default_factory=dict)

    def of(self, name: str) -> WatchOptions:
        """What counts for one servable."""
        return self.overrides.get(name, self.watch)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a source works with besides its target: who admits, who owns which name, where problems are told."""

    admission: Admission
    owners: Claims = field(default_factory=Owners)
    problems: Reports = field(default_factory=SourceProblems)


class FileSystemSource:
    """A `Source` over folders. A version is complete when its manifest is there, or when it was quiet for long enough.

    A servable whose folder vanished keeps its versions, because a mount may have been lost; one whose folder is there
    and empty, at two looks in a row, gives them up.
    """

    def __init__(
        self, options: FileSystemOptions, target: Target[VersionReference], around: Surroundings, title: str = NAME
    ) -> None:
        self._options = options
        self._title = title
        self._target = target
        self._around = around
        self._lock = threading.Lock()
        self._watched: dict[str, Watched] = {}
        self._poller = Poller(self._look)
        self._odd: frozenset[str] = frozenset()
        self._started = False
        self._stopped = False

    def start(self) -> None:
        """Looks at everything once, for at most 10 seconds, and then again and again.

        NotFound where the repository is missing at the start.
        """
        root = self._options.root
        if root is not None and not root.is_dir():
            raise NotFound(f"model repository {root} is no folder: create it, or mend the path")
        self._arrange()
        if root is not None:
            self._look(_ROOT)
        self._started = True
        self._poller.start()
        self._first_look()

    def stop(self) -> None:
        """Says nothing more."""
        self._stopped = True
        self._poller.stop()

    def poll(self) -> None:
        """Looks at every servable once, on this thread."""
        self._arrange()
        if self._options.root is not None:
            self._look(_ROOT)
        for name in sorted(self._names()):
            self._look(name)

    def give_up(self, options: FileSystemOptions, admission: Admission) -> None:
        """Watches other things from now on: what is no longer named is given up. `take_up` begins what is new."""
        with self._lock:
            before, self._options = self._options, options
            self._around = Surroundings(admission, self._around.owners, self._around.problems)
            if before.root != options.root:
                gone = set(self._watched) - options.paths.keys()
            else:
                gone = {name for name in before.paths if name not in options.paths}
            moved = {name for name, path in options.paths.items() if self._lies_elsewhere(name, path)}
            leaving = [self._watched.pop(name) for name in gone | moved if name in self._watched]
        for watched in leaving:
            self._give_up(watched, for_good=watched.name in gone)
        self._arrange({watched.name for watched in leaving if watched.known and watched.name in moved})

    def take_up(self) -> None:
        """Looks at everything at once."""
        self._first_look()

    def take_over(self, name: str) -> bool:
        """Another source has let go of a servable. Whether it is watched: then what it had stays until the folder holds
        something, or is seen to hold nothing."""
        with self._lock:
            watched = self._watched.get(name)
        if watched is None:
            return False
        with watched.turn:
            watched.known, watched.told = True, None
        return True

    def configured(self) -> frozenset[str]:
        """Servables that are named one by one."""
        return frozenset(self._options.paths)

    def is_configured(self, name: str) -> bool:
        """Whether a servable is named by itself."""
        return name in self._options.paths

    def waiting(self) -> frozenset[str]:
        """Servables of which nothing is wanted yet, because a directory is not yet known to be complete."""
        with self._lock:
            watched = list(self._watched.values())
        return frozenset(one.name for one in watched if one.waiting)

    def _names(self) -> list[str]:
        with self._lock:
            return list(self._watched)

    def _lies_elsewhere(self, name: str, path: Path) -> bool:
        watched = self._watched.get(name)
        return watched is not None and watched.path != path

    def _arrange(self, wanted: Collection[str] = ()) -> None:
        """Watches what the options name; whatever was watched before hears of its new options. Something is `wanted`
        already of servables that were watched elsewhere.
        """
        with self._lock:
            options, admission = self._options, self._around.admission
            known = list(self._watched.values())
            for name, path in options.paths.items():
                if name not in self._watched:
                    self._watched[name] = Watched(name, path, options.of(name), admission)
                    self._watched[name].known = name in wanted
        for watched in known:
            watched.retell(options.of(watched.name), admission)

    def _first_look(self) -> None:
        names = {*self._names(), *((_ROOT,) if self._options.root is not None else ())}
        if not self._started:
            return
        self._poller.add(names)
        until = time.monotonic() + FIRST_LOOK_SECONDS
        looked = self._poller.wait_idle(names, FIRST_LOOK_SECONDS)
        if not self._poller.wait_idle(self._names(), max(0.0, until - time.monotonic())) or not looked:
            _log.warning("not every base path could be looked at within %g s, the others go ahead", FIRST_LOOK_SECONDS)

    def _look(self, key: str) -> float | None:
        """One look at a servable, or at the root for new ones; in how many seconds to come again."""
        if key == _ROOT:
            self._guarded(_ROOT, self._discover)
            return self._options.watch.poll_seconds or None
        with self._lock:
            watched = self._watched.get(key)
        if watched is None:
            return None
        self._guarded(key, lambda: self._tell_seen(watched))
        watched.waiting = not watched.known and watched.wait_left() is not None
        return watched.pause()

    def _tell_seen(self, watched: Watched) -> None:
        self._tell(watched, watched.look())
        if watched.trouble is not None:
            raise watched.trouble

    def _guarded(self, name: str, look: Callable[[], None]) -> None:
        """Whatever goes wrong is this servable's problem and nobody else's."""
        problems = self._around.problems
        try:
            look()
        except TidegateError as error:
            problems.report(name, self._title, error)
        except OSError as error:
            what = f"base path of servable {name!r}" if name else f"repository {self._options.root}"
            problems.report(name, self._title, Unavailable(f"{what} cannot be read, what it last had is kept: {error}"))
        else:
            problems.settle(name, self._title)

    def _discover(self) -> None:
        root = self._options.root
        if root is None:
            return
        names, odd = _folders(root)
        self._tell_odd(odd)
        with self._lock:
            taken = self._watched.keys() | self._options.paths.keys()
            found = {name: root / name for name in names - taken}
            options, admission = self._options, self._around.admission
            for name, path in found.items():
                self._watched[name] = Watched(name, path, options.of(name), admission)
            there = names | odd.keys()
            lost = [name for name, one in self._watched.items() if name not in there and self._is_forgotten(one)]
            for name in lost:
                del self._watched[name]
        for name in lost:
            self._around.problems.settle(name, self._title)
        self._poller.add(found)
        if not there and any(self._watched):
            raise NotFound(f"repository {root} is suddenly empty, what it last held is kept: is a mount lost?")

    def _tell_odd(self, odd: Mapping[str, OSError]) -> None:
        """What cannot even be looked at hurts nobody else."""
        problems = self._around.problems
        for name in self._odd - odd.keys():
            problems.settle(name, self._title)
        for name, error in odd.items():
            problems.report(name, self._title, Unavailable(f"{name!r} cannot be looked at, mend or remove it: {error}"))
        self._odd = frozenset(odd)

    def _is_forgotten(self, watched: Watched) -> bool:
        """A folder that came and went without ever holding a version."""
        return not watched.known and watched.name not in self._options.paths

    def _tell(self, watched: Watched, versions: list[PathVersion]) -> None:
        with watched.turn:
            if self._stopped or watched.gone or not (versions or self._may_give_up(watched)):
                return
            name = check_name(watched.name)
            watched.emptied = False
            self._around.owners.claim(name, self._title)
            if versions != watched.told:
                self._target.set_aspired_versions(name, versions)
                watched.told = versions
            watched.known = bool(versions)
            if not versions:
                self._around.owners.release(name, self._title)

    def _may_give_up(self, watched: Watched) -> bool:
        """Whether nothing is wanted any more; raises what is to be said where that is not to be."""
        if watched.known and watched.options.always_present:
            raise NotFound(
                f"no version of servable {watched.name!r} is left under {watched.path}, what it last had is kept "
                "(versions_always_present): put a version there, or take the servable out of the config"
            )
        if not watched.known and watched.name in self._options.paths and watched.wait_left() is None:
            if watched.options.policy.specific == frozenset():
                return False
            raise NotFound(
                f"no complete version of servable {watched.name!r} found under base path {watched.path}: put one in "
                f"a folder that is called by its number, such as {watched.path / '1'}"
            )
        if watched.known and not watched.emptied and watched.options.policy.specific != frozenset():
            watched.emptied = True
            return False
        return watched.known

    def _give_up(self, watched: Watched, for_good: bool) -> None:
        with watched.turn:
            watched.gone = True
            if watched.known and for_good and not self._stopped:
                self._target.set_aspired_versions(watched.name, [])
                self._around.owners.release(watched.name, self._title)
        self._around.problems.settle(watched.name, self._title)


def _folders(root: Path) -> tuple[set[str], dict[str, OSError]]:
    """The folders in a repository by name, and what stands in the way of telling. OSError where it cannot be listed."""
    folders: set[str] = set()
    odd: dict[str, OSError] = {}
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                if entry.is_dir():
                    folders.add(entry.name)
            except OSError as error:
                odd[entry.name] = error
    return folders, odd
