"""What a version tries besides answering: addresses that it calls, writes outside the folders that are its own, reads
of files that another machine may lack or that are not there, changes of environment variables that others of the
process see too.

Python tells of them before they happen (PEP 578), whether they are refused or not, but for files that are only asked
for, as `os.path.exists` does: `os.stat` and `os.access` tell of those that are not there. Native code that goes past
Python is not seen here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

from tidegate_serving.probing.own_code import asked_for_by_own, done_by_own, looked_for_by_own

_MOST = 16
_MOST_MADE = 1024
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_FIRST_IS_WRITTEN = ("os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.chown", "os.utime")
_COMMON = ("/tmp", "/var/tmp", "/dev", "/proc/self", f"/proc/{os.getpid()}")
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
_MACHINE = ("/etc", "/run", "/var")
"""Of the system, but a file of the model's may be meant to lie there."""
_RUNNING = ("/run", "/var/run")
_ADDED = "/opt"
"""Where the machine says what runs on it and what was added to it: questions whether something is there, such as
whether this is a container, are about the machine. What lies deeper in /opt may be a model's."""
_DATABASE = (".db", ".dat", ".pag")
"""What dbm adds to the name of a database, one after the other, until it finds the file."""
_TIDEGATE = str(Path(__file__).parents[2])


class Tries:
    """The first few of each kind, from `watch` on; the version's own `directory` is to be read only."""

    def __init__(self, directory: Path) -> None:
        self._directory = os.path.realpath(directory)
        home = Path.home()
        self._home = os.path.realpath(home)
        self._working = os.path.realpath(Path.cwd())
        self._cache = os.path.realpath(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
        self._settings = os.path.realpath(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        own = (Path.cwd(), os.environ.get("TMPDIR", ""), self._cache, *_COMMON)
        self._own = tuple(os.path.realpath(path) for path in own if path)
        libraries = (sys.prefix, sys.base_prefix, _TIDEGATE, *sys.path)
        self._installed = tuple(os.path.realpath(path) for path in (*libraries, *_SYSTEM) if path)
        self._addresses: dict[str, None] = {}
        self._writes: dict[str, None] = {}
        self._reads: dict[str, None] = {}
        self._absent: dict[str, None] = {}
        self._made: dict[str, None] = {}
        self._environment: dict[str, None] = {}
        self._events: Mapping[str, Callable[[tuple[Any, ...]], None]] = {
            "socket.connect": lambda arguments: self._address(arguments[1]),
            "socket.sendto": lambda arguments: self._address(arguments[1]),
            "socket.sendmsg": lambda arguments: self._address(arguments[1]),
            "open": self._open,
            "os.putenv": self._putenv,
            "os.unsetenv": self._putenv,
            "os.mkdir": self._mkdir,
            "os.listdir": lambda arguments: self._look_for(arguments[0]),
            "os.scandir": lambda arguments: self._look_for(arguments[0]),
            "os.rename": self._rename,
            "os.link": lambda arguments: self._write(arguments[1]),
            "os.symlink": lambda arguments: self._write(arguments[1]),
            **dict.fromkeys(_FIRST_IS_WRITTEN, lambda arguments: self._write(arguments[0])),
        }

    def watch(self) -> None:
        """Watches until the process ends; Python has no way back."""
        sys.addaudithook(self.heard)
        self._told_by("stat")
        self._told_by("access")

    def look(self) -> dict[str, list[str]]:
        """`addresses`, as `host:port`; `writes`, as absolute paths, or from `~` where a library would be free to;
        `reads`, as absolute paths; `absent`, files that it would have read, that are not there yet and that it did not
        make itself, from `~` or `.` (the working folder) where they lie there; `environment`, names of variables.
        """
        found = {
            "addresses": self._addresses,
            "writes": self._writes,
            "reads": self._reads,
            "absent": [self._shown(path) for path in list(self._absent) if not self._is_found(path)],
            "environment": self._environment,
        }
        return {kind: list(names) for kind, names in found.items()}

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Takes note of one of Python's audit events."""
        noted = self._events.get(event)
        if noted is not None:
            noted(arguments)

    def _told_by(self, name: str) -> None:
        """Has a function of `os` that answers without an audit event tell what it did not find."""
        function = getattr(os, name)

        @wraps(function)
        def telling(path: Any, *arguments: Any, **options: Any) -> Any:
            try:
                found = function(path, *arguments, **options)
            except FileNotFoundError:
                self._look_for(path, **options)
                raise
            if found is False:
                self._look_for(path, **options)
            return found

        for supported in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
            if function in supported:
                supported.add(telling)
        setattr(os, name, telling)

    def _look_for(self, path: object, *, dir_fd: int | None = None, **_: object) -> None:
        """Notes what the model's own code asks for where nothing is, but for the version's folder, which is the same on
        every machine, what the user may have set, and what the machine is."""
        if dir_fd is not None or not isinstance(path, (str, bytes, os.PathLike)):
            return
        whole = _whole(path)
        if whole is None or os.path.lexists(whole) or _within(whole, self._directory):
            return
        if _is_of_the_machine(whole) or _within(whole, self._settings):
            return
        self._note_absent(whole, looked_for_by_own)

    def _address(self, address: object) -> None:
        if isinstance(address, tuple) and len(address) >= 2 and len(self._addresses) < _MOST:
            self._addresses[f"{address[0]}:{address[1]}"] = None

    def _putenv(self, arguments: tuple[Any, ...]) -> None:
        if len(self._environment) < _MOST and asked_for_by_own(sys._getframe()):
            self._environment[os.fsdecode(arguments[0])] = None

    def _open(self, arguments: tuple[Any, ...]) -> None:
        path, mode, flags = arguments
        if isinstance(flags, int) and flags & _WRITING:
            if flags & os.O_CREAT:
                self._make(path)
            self._write(path)
        elif mode is not None or os.fsdecode(path).startswith("/"):  # os.open has no mode, and tells no dir_fd
            self._read(path)

    def _mkdir(self, arguments: tuple[Any, ...]) -> None:
        path = arguments[0]
        if isinstance(path, (str, bytes)) and not os.path.lexists(path):
            self._make(path)
            self._write(path)

    def _rename(self, arguments: tuple[Any, ...]) -> None:
        self._make(arguments[1])
        self._write(*arguments[:2])

    def _make(self, path: object) -> None:
        """Remembers the latest files and folders that it made: such as it removes again, as temporary ones, are not
        what another machine may lack."""
        whole = _whole(path) if isinstance(path, (str, bytes, os.PathLike)) else None
        if whole is None or whole in (self._home, self._working):
            return
        self._made[whole] = None
        while len(self._made) > _MOST_MADE:
            self._made.pop(next(iter(list(self._made))), None)

    def _is_found(self, path: str) -> bool:
        return self._is_made(path) or any(os.path.lexists(f"{path}{suffix}") for suffix in ("", *_DATABASE))

    def _is_made(self, path: str) -> bool:
        """Whether a path is, or lies in, what the version made."""
        return any(one in self._made for one in (path, *map(str, Path(path).parents)))

    def _read(self, path: object) -> None:
        """Notes a file that is there, but neither the version's, nor the system's, nor Python's and its libraries'; and
        one that is not there, wherever that would be."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        if os.fsdecode(path).startswith("/proc/"):  # the probe's own looks, several with each call
            return
        whole = _whole(path)
        if whole is None:
            return
        if not os.path.lexists(whole):
            if not self._tried_by_habit(whole):
                self._note_absent(whole)
            return
        if any(_within(whole, one) for one in (self._directory, *self._own, *self._installed)):
            return
        if len(self._reads) < _MOST and Path(whole).is_file() and asked_for_by_own(sys._getframe()):
            self._reads[whole] = None

    def _tried_by_habit(self, whole: str) -> bool:
        """Whether Python's `dbm` tries one of a database's names, or its `netrc` the user's own file."""
        frame = _first_outside(sys._getframe())
        module = frame.f_globals.get("__name__") if frame is not None else None
        if module == "netrc":
            return whole == f"{self._home}/.netrc"
        named = frame.f_locals.get("filename") if frame is not None and module == "dbm" else None
        return named is not None and _whole(named) != whole

    def _note_absent(self, whole: str, by: Callable[[FrameType | None], bool] | None = None) -> None:
        """What libraries look for among their own files, in caches, in the system and at home is their own affair; `by`
        says whose the look is where it is no attempt to open the file."""
        of_libraries = (self._cache, *(one for one in self._installed if one not in (*_MACHINE, self._working)))
        if not _within(whole, self._directory) and any(_within(whole, one) for one in of_libraries):
            return
        if "/__pycache__/" in whole or self._is_made(whole):
            return
        folder = _closest(whole, (self._directory, self._working, self._home, *_MACHINE))
        asked = by or (done_by_own if folder in (self._home, *_MACHINE) else asked_for_by_own)
        if len(self._absent) < _MOST and asked(sys._getframe()):
            self._absent[whole] = None

    def _shown(self, path: str) -> str:
        names = {self._home: "~", self._directory: self._directory, self._working: "."}
        folder = _closest(path, names)
        return path if folder is None else f"{names[folder]}{path.removeprefix(folder)}"

    def _write(self, *paths: object) -> None:
        for path in paths:
            if not isinstance(path, (str, bytes, os.PathLike)) or len(self._writes) >= _MOST:
                continue
            if (whole := _whole(path)) is None:
                continue
            if _within(whole, self._directory):
                self._writes[whole] = None
                continue
            folder = _closest(whole, (*self._own, self._home))
            if folder is None:
                self._writes[whole] = None
            elif folder not in self._own and asked_for_by_own(sys._getframe()):
                self._writes[f"~{whole.removeprefix(folder)}"] = None


def _whole(path: str | bytes | os.PathLike[Any]) -> str | None:
    """The path without links; None for what is none: the call itself will fail as it does without us."""
    try:
        return os.path.realpath(os.fsdecode(path))
    except (OSError, ValueError):
        return None


def _first_outside(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of other code than this module's."""
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _is_of_the_machine(path: str) -> bool:
    """Whether it lies where the machine tells of itself: a hidden file in the root, such as /.dockerenv, among them."""
    folder, name = os.path.split(path)
    return any(_within(path, one) for one in _RUNNING) or folder == _ADDED or (folder == "/" and name.startswith("."))


def _closest(path: str, folders: Iterable[str]) -> str | None:
    """The innermost of the folders that the path is in."""
    return max((one for one in folders if _within(path, one)), key=len, default=None)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
