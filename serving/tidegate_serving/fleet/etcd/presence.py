"""Keeps one key in etcd for as long as its process lives: a node's, a router's, or the leading controller's.

A thread renews the lease three times within its length. Where etcd is away it goes on trying; where the lease ended
meanwhile, or etcd was restored from before, the key is written anew. One process alone has the key.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tidegate_serving.contract.errors import AlreadyExists, TidegateError
from tidegate_serving.fleet.etcd.client import Etcd

BEATS = 3


class Presence:
    """`document` gives the key's value, which is asked for at each beat; `told` hears after each beat what is wrong,
    None for nothing. `seconds` is how long the key outlives its process."""

    def __init__(
        self,
        etcd: Etcd,
        key: str,
        document: Callable[[], bytes],
        seconds: int,
        told: Callable[[TidegateError | None], None],
    ) -> None:
        self._etcd = etcd
        self._key = key
        self._document = document
        self._seconds = seconds
        self._told = told
        self._wake = threading.Event()
        self._stopped = False
        self._lease = 0
        self._revision = 0
        self._written = b""
        self._until = 0.0
        self._thread = threading.Thread(target=self._run, name="tidegate-presence", daemon=True)

    def start(self) -> None:
        """Begins; returns at once, whether etcd answers or not."""
        self._thread.start()

    def beat(self) -> None:
        """Has the document written now, if it is another."""
        self._wake.set()

    @property
    def revision(self) -> int:
        """The revision at which this process wrote the key, 0 where it does not surely have it now."""
        return self._revision if time.monotonic() < self._until else 0

    def stop(self) -> None:
        """The key goes at once where etcd answers, else once its time is over."""
        self._stopped = True
        self._wake.set()
        self._thread.join()
        if self._lease:
            try:
                self._etcd.revoke(self._lease)
            except TidegateError as error:
                self._told(error)

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._beat()
            except TidegateError as error:
                self._told(error)
            else:
                self._told(None)
            self._wake.wait(self._seconds / BEATS)
            self._wake.clear()

    def _beat(self) -> None:
        began = time.monotonic()
        if self._lease and not self._etcd.keep_alive(self._lease):
            self._lease = self._revision = 0
        if not self._lease:
            self._lease = self._etcd.grant(self._seconds)
        if self._revision and "" not in self._etcd.read(self._key).entries:
            self._revision = 0  # somebody deleted it
        document = self._document()
        if not self._revision or document != self._written:
            revision = self._etcd.commit({self._key: self._revision}, {self._key: document}, lease=self._lease)
            if revision is None:
                found = self._etcd.read(self._key).entries.get("")
                if found is not None and found.lease == self._lease:  # what it wrote before, and got no answer to
                    revision, document = found.revision, found.value
            if revision is None:
                if self._revision:  # it was this process', and is as it was before: etcd was restored from a backup
                    self._etcd.revoke(self._lease)
                    self._lease = 0
                self._revision = 0
                raise AlreadyExists(
                    f"{self._key} belongs to another process: it is taken over once that is gone, within "
                    f"{self._seconds} s"
                )
            self._revision, self._written = revision, document
        self._until = began + self._seconds
