"""Says when a version directory without a manifest counts as complete: once nothing in it has changed for a while."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.contract.errors import InvalidInput

LONG_AGO_SECONDS = 60.0
RECHECK_SECONDS = 5.0
MOST_ENTRIES = 100_000
_CROWDED, _MASK = -1, (1 << 32) - 1


@dataclass(slots=True)
class _Seen:
    """What a directory looked like, and since when; `settled` is the last state that did not change for long enough."""

    state: int
    since: float
    looked_at: float
    settled: int | None = None


class QuietPeriod:
    """Remembers directories from look to look: names, sizes and times of all their files, links followed.

    A directory is settled once nothing in it has changed for `seconds`. One whose newest file is 60 seconds older than
    that is settled at first sight, so that a restart does not wait. One that was settled stays so, whatever happens in
    it afterwards. One with more than 100,000 files and folders is none of a model: a link may lead anywhere.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._wall = wall
        self._seen: dict[Path, _Seen] = {}

    def settled(self, directory: Path) -> int | None:
        """A number that changes when the files do; None as long as the directory is empty or not settled. InvalidInput
        for one with too many files, which is looked at once a minute."""
        now = self._clock()
        seen = self._seen.get(directory)
        if seen is None or now - seen.looked_at >= _pause(seen):
            seen = self._look(directory, seen, now)
        if seen.state == _CROWDED:
            raise InvalidInput(
                f"{directory} holds more than {MOST_ENTRIES:,} files and folders, links followed: put the model alone "
                "there"
            )
        return seen.settled

    def _look(self, directory: Path, seen: _Seen | None, now: float) -> _Seen:
        state, newest = _state_now(directory)
        if seen is None:
            seen = self._seen[directory] = _Seen(state, now, now)
            if state > 0 and self._wall() - newest > self.seconds + LONG_AGO_SECONDS:
                seen.settled = state
        elif state != seen.state:
            seen.state, seen.since = state, now
        seen.looked_at = now
        if state > 0 and now - seen.since >= self.seconds:
            seen.settled = state
        return seen

    def wait_left(self) -> float | None:
        """Seconds until the next directory can be settled; None where none is waited for."""
        waiting = [seen.since for seen in list(self._seen.values()) if seen.state > 0 and seen.settled != seen.state]
        return max(0.0, self.seconds - (self._clock() - min(waiting))) if waiting else None

    def keep(self, directories: Collection[Path]) -> None:
        """Forgets all other directories."""
        for directory in self._seen.keys() - set(directories):
            del self._seen[directory]


def _pause(seen: _Seen) -> float:
    """Seconds until it is looked at again."""
    if seen.state == _CROWDED:
        return LONG_AGO_SECONDS
    return RECHECK_SECONDS if seen.settled == seen.state else 0.0


def _state_now(directory: Path) -> tuple[int, float]:
    try:
        return _state(directory)
    except FileNotFoundError:
        return 0, 0.0


def _state(directory: Path) -> tuple[int, float]:
    """A number for what is there, 0 for nothing and _CROWDED for too much, and the time of the newest change in Unix
    seconds.

    Of a link that leads nowhere, the link itself counts; one that leads back is not followed.
    """
    top = directory.stat()
    newest, visited = top.st_ctime, {(top.st_dev, top.st_ino)}
    entries = files = total = 0
    for folder, folders, names in os.walk(directory, followlinks=True):
        entries += len(folders) + len(names)
        if entries > MOST_ENTRIES:
            return _CROWDED, newest
        for name in (*folders, *names):
            path = Path(folder, name)
            status = _status(path)
            newest = max(newest, status.st_mtime, status.st_ctime)
            if name in names:
                files += 1
                total += zlib.crc32(repr((str(path), status.st_size, status.st_mtime_ns)).encode())
            elif (status.st_dev, status.st_ino) in visited:
                folders.remove(name)
            visited.add((status.st_dev, status.st_ino))
    return (total & _MASK | 1) if files else 0, newest


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError:
        return path.lstat()
