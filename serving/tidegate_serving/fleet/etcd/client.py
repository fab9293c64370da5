"""A client of etcd, as far as a fleet needs one: read a prefix, change keys together, hold a lease, hear of changes.

It speaks etcd's gRPC API (version 3.4 and later) over the library that the control port uses, from any thread. An
endpoint that does not answer is followed by the next one, on a new connection; one that has answered is kept.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import InvalidInput, ResourceExhausted, TidegateError, Unavailable
from tidegate_serving.contract.messages import message
from tidegate_serving.fleet.etcd.members import first_ready

CALL_SECONDS = 5.0
_SHOWN = 200  # characters of the keys that a write was about
_T = TypeVar("_T")
_GONE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's value, the revision of its last change, and the lease that it goes with, 0 for none."""

    value: bytes
    revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All keys below a prefix at one revision, by what follows the prefix."""

    revision: int = 0
    entries: Mapping[str, Entry] = field(default_factory=dict)

    def below(self, folder: str) -> dict[str, Entry]:
        """The entries in a folder, by what follows it."""
        return {key.removeprefix(folder): one for key, one in self.entries.items() if key.startswith(folder)}


class Etcd:
    """A cluster at `host:port`, several with commas between, or `tidegates://` with TLS as in EngineConnection.

    Every method raises Unavailable, naming the endpoints, where none of them answers within five seconds.
    """

    def __init__(self, endpoints: str) -> None:
        self._connections = EngineConnection.of(endpoints).each()
        self._endpoints = endpoints
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._turn = 0
        self._closed = False
        self._channel: grpc.Channel | None = None

    def read(self, prefix: str) -> Snapshot:
        """Every key that begins with `prefix`."""
        request = message("etcdserverpb.RangeRequest")(key=prefix.encode(), range_end=_after(prefix))
        answer = self._unary("KV/Range", request, "RangeResponse")
        entries = {
            one.key.decode(errors="replace").removeprefix(prefix): Entry(one.value, one.mod_revision, one.lease)
            for one in answer.kvs
        }
        return Snapshot(answer.header.revision, entries)

    def commit(
        self,
        unchanged: Mapping[str, int],
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        lease: int = 0,
    ) -> int | None:
        """Writes and deletes keys in one transaction, if all of `unchanged` are at these revisions (0: not there); the
        new revision, or None where one is not, and then nothing has changed. What is written goes with the lease.

        Raises Unavailable where an endpoint gave no answer and the next one finds that something changed, which may
        be what the first one wrote."""
        request = message("etcdserverpb.TxnRequest")()
        for key, revision in unchanged.items():
            request.compare.add(target="MOD", key=key.encode(), mod_revision=revision)
        for key, value in puts.items():
            put = request.success.add().request_put
            put.key, put.value, put.lease = key.encode(), value, lease
        for key in deletes:
            request.success.add().request_delete_range.key = key.encode()
        asked: list[grpc.Channel] = []
        answer = self._unary("KV/Txn", request, "TxnResponse", asked)
        if answer.succeeded:
            return int(answer.header.revision)
        if len(asked) == 1:
            return None
        found = [self.read(key).entries.get("") for key in puts]
        own = {
            one.revision if one and one.value == value else 0 for one, value in zip(found, puts.values(), strict=True)
        }
        if len(own) == 1 and (revision := own.pop()):
            return revision
        raise Unavailable(
            f"etcd at {self._endpoints} did not say whether it wrote {', '.join((*puts, *deletes))[:_SHOWN]}, and it "
            "was changed since: look at what is there, and decide anew"
        )

    def grant(self, seconds: int) -> int:
        """A new lease, which ends by itself after `seconds`."""
        request = message("etcdserverpb.LeaseGrantRequest")(TTL=seconds)
        return int(self._unary("Lease/LeaseGrant", request, "LeaseGrantResponse").ID)

    def keep_alive(self, lease: int) -> bool:
        """Has a lease begin anew; False where it is gone."""
        request = message("etcdserverpb.LeaseKeepAliveRequest")(ID=lease)

        def ask(channel: grpc.Channel) -> Any:
            call = _stream(channel, "Lease/LeaseKeepAlive", "LeaseKeepAliveResponse")
            answers = call(iter([request]), timeout=CALL_SECONDS)
            try:
                return next(answers)
            finally:
                answers.cancel()

        return bool(self._asked(ask).TTL > 0)

    def revoke(self, lease: int) -> None:
        """Ends a lease now; its keys go with it."""
        self._unary("Lease/LeaseRevoke", message("etcdserverpb.LeaseRevokeRequest")(ID=lease), "LeaseRevokeResponse")

    def changes(self, prefix: str, after: int) -> Iterator[int]:
        """The revision of each change below `prefix` later than revision `after`, as they happen, until `close`."""
        request = message("etcdserverpb.WatchRequest")()
        request.create_request.key, request.create_request.range_end = prefix.encode(), _after(prefix)
        request.create_request.start_revision = after + 1
        asking: queue.SimpleQueue[Any] = queue.SimpleQueue()
        asking.put(request)
        channel = self._open()
        try:
            answers = _stream(channel, "Watch/Watch", "WatchResponse")(iter(asking.get, None))
        except ValueError as error:
            raise Unavailable(f"the connection to etcd at {self._endpoints} was closed: watch again") from error
        try:
            for answer in answers:
                if answer.canceled:  # such as where old revisions were compacted: read again, and watch from there
                    raise Unavailable(
                        f"etcd at {self._endpoints} ended a watch ({answer.cancel_reason}): it is begun anew"
                    )
                if not answer.created:
                    yield int(answer.header.revision)
                elif answer.header.revision < after:  # restored since it was read: nothing is heard for long from there
                    raise Unavailable(f"etcd at {self._endpoints} is back at an earlier revision: it is read anew")
        except grpc.RpcError as error:
            raise self._said(error, channel) from error
        finally:
            asking.put(None)
            answers.cancel()

    def close(self) -> None:
        """Closes the client; whoever waits for changes hears Unavailable."""
        with self._lock:
            self._closed = True
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _unary(self, method: str, request: Any, answer: str, asked: list[grpc.Channel] | None = None) -> Any:
        """`asked` gets each channel that the request went over."""

        def ask(channel: grpc.Channel) -> Any:
            if asked is not None:
                asked.append(channel)
            call = channel.unary_unary(
                f"/etcdserverpb.{method}",
                request_serializer=_bytes,
                response_deserializer=message(f"etcdserverpb.{answer}").FromString,
            )
            return call(request, timeout=CALL_SECONDS)

        return self._asked(ask)

    def _asked(self, ask: Callable[[grpc.Channel], _T]) -> _T:
        """The answer of the first endpoint that gives one, from the one that answered last on."""
        for left in range(len(self._connections) - 1, -1, -1):
            channel = self._open()
            try:
                return ask(channel)
            except grpc.RpcError as error:
                said = self._said(error, channel)
                if not isinstance(said, Unavailable) or not left:
                    raise said from error
            except (StopIteration, ValueError) as error:  # it ended, or was closed meanwhile
                raise Unavailable(f"etcd at {self._endpoints} ended a call without an answer: try again") from error
        raise Unavailable(f"etcd at {self._endpoints} does not answer")

    def _open(self) -> grpc.Channel:
        with self._connecting:
            if (channel := self._opened()) is not None:
                return channel
            turn = self._turn % len(self._connections)
            try:
                ahead, channel = first_ready(self._connections[turn:] + self._connections[:turn], CALL_SECONDS)
            except TimeoutError as error:
                why = f"no connection within {CALL_SECONDS:g} s"
                raise Unavailable(self._silent(why)) from error
            with self._lock:
                self._channel, self._turn = channel, turn + ahead
                closed = self._closed
        if closed:  # meanwhile; a call over the channel says so
            self.close()
        return channel

    def _opened(self) -> grpc.Channel | None:
        with self._lock:
            if self._closed:
                raise Unavailable(f"the client of etcd at {self._endpoints} was closed")
            return self._channel

    def _silent(self, why: str | None) -> str:
        return f"etcd at {self._endpoints} does not answer ({why}): start it, or check the address"

    def _said(self, error: grpc.RpcError, channel: grpc.Channel) -> TidegateError:
        """What an error of gRPC's means. A connection that failed is given up: a new one does not wait for its turn."""
        status: Any = error
        code, details = status.code(), status.details()
        if code not in _GONE:
            kind = ResourceExhausted if code is grpc.StatusCode.RESOURCE_EXHAUSTED else InvalidInput
            return kind(f"etcd at {self._endpoints} refused ({details}): look at its log")
        with self._lock:
            if self._channel is channel:
                self._channel, self._turn = None, self._turn + 1
        channel.close()
        return Unavailable(self._silent(details))


def _stream(channel: grpc.Channel, method: str, answer: str) -> Any:
    return channel.stream_stream(
        f"/etcdserverpb.{method}",
        request_serializer=_bytes,
        response_deserializer=message(f"etcdserverpb.{answer}").FromString,
    )


def _after(prefix: str) -> bytes:
    """The first key that does not begin with a prefix, which ends in ASCII."""
    key = prefix.encode()
    return key[:-1] + bytes([key[-1] + 1])


def _bytes(request: Any) -> bytes:
    data: bytes = request.SerializeToString()
    return data
