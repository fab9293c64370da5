"""Copies a model's files into a version, as they were when publish looked at them first: whoever writes there
meanwhile, or puts a link to something else there, is found out."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, NotFound, ResourceExhausted

_CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_RIGHTS = 0o777
_BECAME_ANOTHER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)
_State = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Files and directories that a person named, and each file in them with what the system says of it."""

    named: Sequence[Path]
    states: Mapping[Path, os.stat_result]

    @classmethod
    def of(cls, named: Sequence[Path]) -> Self:
        """As they are now; nothing is opened. NotFound or InvalidInput naming what cannot be published."""
        if not named:
            raise InvalidInput("a version needs files: name a directory, or the files of the model")
        states: dict[Path, os.stat_result] = {}
        with _while_it_lies_still(named):
            for one in named:
                if not one.exists():
                    raise NotFound(f"{one} is missing: name the model's directory or files")
                states.update(_files(one))
        if not states:
            raise InvalidInput(f"{named[0]} holds no file: a version needs at least one")
        return cls(named, states)

    def copy(self, folder: Path) -> None:
        """Into an empty folder: what a directory holds, and files under their own names. FailedPrecondition where one
        is not as it was, ResourceExhausted where the disk has no room for all, InvalidInput for two of one name."""
        size, free = sum(one.st_size for one in self.states.values()), shutil.disk_usage(folder).free
        if size > free:
            raise ResourceExhausted(
                f"{self.named[0]} has {size:,} bytes and the disk of {folder.parent} has {free:,} left: free space "
                "there, or publish what the model needs alone"
            )
        copied: dict[Path, _State] = {}
        with _while_it_lies_still(self.named):
            try:
                for one in self.named:
                    if one.is_dir():
                        copied.update(_copy_folder(one, folder))
                    else:
                        copied[one] = copy_plain(one, folder / one.name)
            except FileExistsError as error:
                name = Path(error.filename).relative_to(folder)
                raise InvalidInput(f"{name} is there twice among the files of the version: rename one") from error
        before = {path: _state(found) for path, found in self.states.items()}
        changed = [path for path in {**before, **copied} if before.get(path) != copied.get(path)]
        if changed:
            raise _moved(changed[0])


def copy_plain(source: Path, target: Path, name: str | None = None, folder: int | None = None) -> _State:
    """Copies a file, its rights and its time, and returns its state; no link is followed and no pipe waited for. `name`
    and `folder`, an open one, are where `source` is by now. OSError as of `open`, where `target` is there too."""
    try:
        opened = os.open(name or source, _FLAGS, dir_fd=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(source)) from error
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise _moved(source)
        with target.open("xb") as copy:
            left = found.st_size  # and no more: a file that grows may grow as fast as it is copied
            while left and (chunk := file.read(min(left, _CHUNK))):
                left -= copy.write(chunk)
            os.fchmod(copy.fileno(), found.st_mode & _RIGHTS)
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        return _state(os.fstat(file.fileno()))


def _copy_folder(source: Path, target: Path) -> Iterator[tuple[Path, _State]]:
    """Every file below a directory, which is entered through open folders alone: no link leads out of it."""
    for place, _, names, folder in os.fwalk(source):
        inside = target / Path(place).relative_to(source)
        inside.mkdir(exist_ok=True)
        for name in names:
            path = Path(place, name)
            yield path, copy_plain(path, inside / name, name, folder)


def _files(named: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in (named, *sorted(named.rglob("*"))):
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise InvalidInput(f"{path} is a link: a version holds plain files only, put the file itself there")
        if stat.S_ISREG(found.st_mode):
            yield path, found
        elif not stat.S_ISDIR(found.st_mode):
            raise InvalidInput(f"{path} is a device, pipe or socket: a version holds plain files only, remove it")


@contextlib.contextmanager
def _while_it_lies_still(named: Sequence[Path]) -> Iterator[None]:
    """What vanishes, or becomes something else, in the middle of it is a change like others."""
    try:
        yield
    except OSError as error:
        if error.errno not in _BECAME_ANOTHER:
            raise
        raise _moved(Path(os.fsdecode(error.filename or named[0]))) from error


def _moved(path: Path) -> FailedPrecondition:
    return FailedPrecondition(
        f"{path} changed while it was published: publish once the training is done and nobody writes there"
    )


def _state(found: os.stat_result) -> _State:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
