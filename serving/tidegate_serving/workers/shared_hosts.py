"""The processes that versions share, so many of each place, and which versions are better alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection

import tidegate_native as native

from tidegate_serving.contract.servable import ServableId
from tidegate_serving.workers.host import Host, HostEnded, started
from tidegate_serving.workers.place import WorkerPlace


class SharedHosts:
    """The processes that versions share: of each place so many at most. For any number of threads.

    A version that ended one in the middle of its load or batch gets processes of its own from then on, so that it
    takes the others along no more than once. `patience` is as a host's.
    """

    def __init__(self, most: Callable[[], int], patience: Callable[[], float]) -> None:
        self._most = most
        self._patience = patience
        self._lock = threading.Lock()
        self._hosts: dict[WorkerPlace, list[Host]] = {}
        self._alone: set[ServableId] = set()
        self._failed_alone: set[ServableId] = set()

    def open(self, id: ServableId, place: WorkerPlace, beside: Collection[Host]) -> tuple[Host, native.WorkerLine]:
        """A worker of a version in the process that has the fewest, other than those `beside`. OSError where no
        process can be started."""
        with self._lock:
            if id in self._alone:
                return started(place)
            while True:
                hosts = self._hosts[place] = [host for host in self._hosts.get(place, ()) if host.is_open]
                free = [host for host in hosts if host not in beside]
                if not free or len(hosts) < self._most():
                    break
                with contextlib.suppress(HostEnded):
                    host = min(free, key=lambda host: host.workers)
                    return host, host.open()
            host, line = started(place, self._patience)
            hosts.append(host)
            return host, line

    def keeps_alone(self, id: ServableId) -> bool:
        """Whether a version gets processes of its own."""
        with self._lock:
            return id in self._alone

    def keep_alone(self, id: ServableId) -> bool:
        """Gives a version processes of its own from now on; whether that is news."""
        with self._lock:
            news = id not in self._alone
            self._alone.add(id)
            return news

    def fails_alone(self, id: ServableId) -> bool:
        """Whether a version was seen to fail to load in a process of its own: no neighbour is to blame."""
        with self._lock:
            return id in self._failed_alone

    def note_failed_alone(self, id: ServableId) -> None:
        """Has it no more tried so until it has loaded, as a process for each try of what is corrupt would cost all
        others."""
        with self._lock:
            self._failed_alone.add(id)

    def note_loaded(self, id: ServableId) -> None:
        """What failed alone, such as for want of a file, may be loaded again once that is mended."""
        with self._lock:
            self._failed_alone.discard(id)
