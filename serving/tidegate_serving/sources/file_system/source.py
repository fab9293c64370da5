"""The file system source: watches base paths and aspires the versions that lie there complete and admitted.

Base paths are named one by one (PATH/VERSION) or discovered under a repository (ROOT/NAME/VERSION). Each servable is
looked at on its own; one that cannot be read keeps its versions.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate_serving.admission import Admission
from tidegate_serving.contract.errors import NotFound, TidegateError, Unavailable
from tidegate_serving.contract.servable import check_name
from tidegate_serving.contract.words import cut
from tidegate_serving.sources.context import SourceContext
from tidegate_serving.sources.file_system.watched import PathVersion, WatchedServable, WatchOptions
from tidegate_serving.sources.polling import Poller
from tidegate_serving.sources.problems import reported

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
        """The options of one servable."""
        return self.overrides.get(name, self.watch)


class FileSystemSource:
    """A `Source` over folders. A version is complete when its manifest is there, or when nothing in it changes.

    A servable whose folder vanished keeps its versions, because a mount may have been lost. One whose folder is there
    and empty, at two looks in a row, gives them up.
    """

    def __init__(self, options: FileSystemOptions, context: SourceContext, title: str = NAME) -> None:
        self._options = options
        self._context = context
        self._title = title
        self._lock = threading.Lock()
        self._watched: dict[str, WatchedServable] = {}
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
        self.take_up()

    def stop(self) -> None:
        """Never calls its target again."""
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
        """Takes other options: what they no longer name is given up. `take_up` begins what is new."""
        with self._lock:
            before, self._options = self._options, options
            self._context = replace(self._context, admission=admission)
            if before.root != options.root:
                gone = set(self._watched) - options.paths.keys()
            else:
                gone = {name for name in before.paths if name not in options.paths}
            moved = {name for name, path in options.paths.items() if self._lies_elsewhere(name, path)}
            leaving = [self._watched.pop(name) for name in gone | moved if name in self._watched]
        for watched in leaving:
            self._give_up(watched, for_good=watched.name in gone)
        self._arrange({watched.name for watched in leaving if watched.has_versions and watched.name in moved})

    def take_up(self) -> None:
        """Looks at everything now, and waits at most 10 seconds for that."""
        if not self._started:
            return
        names = {*self._names(), *((_ROOT,) if self._options.root is not None else ())}
        self._poller.add(names)
        until = time.monotonic() + FIRST_LOOK_SECONDS
        looked = self._poller.wait_idle(names, FIRST_LOOK_SECONDS)
        if not self._poller.wait_idle(self._names(), max(0.0, until - time.monotonic())) or not looked:
            _log.warning("not every base path could be looked at within %g s, the others go ahead", FIRST_LOOK_SECONDS)

    def take_over(self, name: str) -> bool:
        """Called when another source has let go of a servable: whether this one watches it.

        If so, its versions stay until the folder is seen to hold a version, or none.
        """
        with self._lock:
            watched = self._watched.get(name)
        if watched is None:
            return False
        with watched.lock:
            watched.has_versions, watched.aspired = True, None
        return True

    @property
    def options(self) -> FileSystemOptions:
        """What it watches now."""
        return self._options

    def configured(self) -> frozenset[str]:
        """Servables that are named one by one, without those of which no version is wanted."""
        return frozenset(filter(self.is_configured, self._options.paths))

    def is_configured(self, name: str) -> bool:
        """Whether a servable is named by itself, and any version of it is wanted."""
        options = self._options
        return name in options.paths and options.of(name).policy.specific != frozenset()

    def waiting(self) -> frozenset[str]:
        """Servables without a version, because a directory is not yet known to be complete."""
        with self._lock:
            watched = list(self._watched.values())
        return frozenset(one.name for one in watched if one.waiting)

    def _names(self) -> list[str]:
        with self._lock:
            return list(self._watched)

    def _lies_elsewhere(self, name: str, path: Path) -> bool:
        watched = self._watched.get(name)
        return watched is not None and watched.path != path

    def _arrange(self, aspired: Collection[str] = ()) -> None:
        """Watches what the options name, and gives what was watched before its new options.

        Those named in `aspired` were watched elsewhere and still have versions from there.
        """
        with self._lock:
            options, admission = self._options, self._context.admission
            known = list(self._watched.values())
            for name, path in options.paths.items():
                if name not in self._watched:
                    self._watched[name] = WatchedServable(name, path, options.of(name), admission)
                    self._watched[name].has_versions = name in aspired
        for watched in known:
            watched.set_options(options.of(watched.name), admission)

    def _look(self, key: str) -> float | None:
        """One look at a servable, or at the root for new ones. Seconds until the next one."""
        if key == _ROOT:
            with reported(self._context.problems, _ROOT, self._title, self._unreadable(_ROOT)):
                self._discover()
            return self._options.watch.poll_seconds or None
        with self._lock:
            watched = self._watched.get(key)
        if watched is None:
            return None
        with reported(self._context.problems, key, self._title, self._unreadable(key)):
            self._tell(watched, watched.look())
            if watched.fault is not None:
                raise watched.fault
        watched.waiting = not watched.has_versions and watched.wait_left() is not None
        return watched.pause()

    def _unreadable(self, name: str) -> Callable[[OSError], TidegateError]:
        what = f"base path of servable {name!r}" if name else f"repository {self._options.root}"
        return lambda error: Unavailable(f"{what} cannot be read, what it last had is kept: {error}")

    def _discover(self) -> None:
        root = self._options.root
        if root is None:
            return
        folders, odd = _folders(root)
        self._tell_odd(odd)
        with self._lock:
            taken = self._watched.keys() | self._options.paths.keys()
            found = {name: path for name, path in folders.items() if name not in taken}
            options, admission = self._options, self._context.admission
            for name, path in found.items():
                self._watched[name] = WatchedServable(name, path, options.of(name), admission)
            there = folders.keys() | odd.keys()
            lost = [name for name, one in self._watched.items() if name not in there and self._is_forgotten(one)]
            for name in lost:
                del self._watched[name]
        for name in lost:
            self._context.problems.settle(name, self._title)
        self._poller.add(found)
        if not there and any(self._watched):
            raise NotFound(f"repository {root} is suddenly empty, what it last held is kept: is a mount lost?")

    def _tell_odd(self, odd: Mapping[str, OSError]) -> None:
        """Reports entries of the repository of which the system cannot say what they are."""
        problems = self._context.problems
        for name in self._odd - odd.keys():
            problems.settle(name, self._title)
        for name, error in odd.items():
            problems.report(name, self._title, Unavailable(f"{name!r} cannot be looked at, mend or remove it: {error}"))
        self._odd = frozenset(odd)

    def _is_forgotten(self, watched: WatchedServable) -> bool:
        """A folder that came and went without ever holding a version."""
        return not watched.has_versions and watched.name not in self._options.paths

    def _tell(self, watched: WatchedServable, versions: list[PathVersion]) -> None:
        with watched.lock:
            if self._stopped or watched.dropped or not (versions or self._may_give_up(watched)):
                return
            name = check_name(watched.name)
            watched.was_empty = False
            self._context.owners.claim(name, self._title)
            if versions != watched.aspired:
                self._context.target.set_aspired_versions(name, versions)
                watched.aspired = versions
            watched.has_versions = bool(versions)
            if not versions:
                self._context.owners.release(name, self._title)

    def _may_give_up(self, watched: WatchedServable) -> bool:
        """Whether a servable without any version to be seen gives up those it has. NotFound where that is a mistake."""
        if watched.has_versions and watched.options.always_present:
            raise NotFound(
                f"no version of servable {watched.name!r} is left under {watched.path}, what it last had is kept "
                "(versions_always_present): put a version there, or take the servable out of the config"
            )
        if not watched.has_versions and watched.name in self._options.paths and watched.wait_left() is None:
            if watched.options.policy.specific == frozenset():
                return False
            raise NotFound(
                f"no complete version of servable {watched.name!r} found under base path {watched.path}: put one in "
                f"a folder that is called by its number, such as {watched.path / '1'}"
            )
        if watched.has_versions and not watched.was_empty and watched.options.policy.specific != frozenset():
            watched.was_empty = True
            return False
        return watched.has_versions

    def _give_up(self, watched: WatchedServable, for_good: bool) -> None:
        with watched.lock:
            watched.dropped = True
            if watched.has_versions and for_good and not self._stopped:
                self._context.target.set_aspired_versions(watched.name, [])
                self._context.owners.release(watched.name, self._title)
        self._context.problems.settle(watched.name, self._title)


def _folders(root: Path) -> tuple[dict[str, Path], dict[str, OSError]]:
    """A repository's folders by their names, as UTF-8 can say them, and errors by name of what cannot be looked at.
    OSError from listing it."""
    folders: dict[str, Path] = {}
    odd: dict[str, OSError] = {}
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            name = cut(entry.name)
            try:
                if entry.is_dir():
                    folders[name] = Path(entry.path)
            except OSError as error:
                odd[name] = error
    return folders, odd
