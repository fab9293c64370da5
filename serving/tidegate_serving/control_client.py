"""A client of the RPC Source: tells an engine what should be live and watches it come true.

Operators and the command line push, promote and roll back through it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from tidegate_serving.contract.errors import DeadlinePassed, error_of
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import State, StateChange
from tidegate_serving.sources.rpc_messages import SERVICE, from_event, from_status
from tidegate_serving.sources.status import EngineStatus, ServableStatus, Tee, VersionStatus
from tidegate_serving.wire_errors import CHANNEL_OPTIONS, from_rpc

__all__ = ["Aspired", "ControlClient", "EngineStatus", "ServableStatus", "Tee", "VersionStatus"]
_PUSH_TIMEOUT = 600.0
_CALL_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Aspired:
    """A version that should be live: its number, its directory as the engine sees it, the digest of its manifest."""

    version: int
    path: Path
    manifest_digest: str


class ControlClient:
    """Speaks to the control port at `address` (host:port). A context manager; safe to share between threads."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)

    def set_aspired(
        self,
        servable: str,
        versions: Sequence[Aspired],
        *,
        labels: Mapping[str, int] | None = None,
        tee: Tee | None = None,
        requested_by: str,
        reason: str = "",
    ) -> int:
        """Says which versions, labels and tee a servable should have, as a whole; a version left out unloads.

        Returns the revision, which grows with each accepted change; the call returns before anything loads. Nothing
        changes when it raises: Tampered or NotAdmitted name the file, PermissionRefused a path outside the engine's
        roots, InvalidInput a label or tee on a version that is not in the set.
        """
        request = message("tidegate.v1.SetAspiredRequest")(
            servable=servable,
            versions=[_aspired_message(version) for version in versions],
            labels=dict(labels or {}),
            requested_by=requested_by,
            reason=reason,
        )
        if tee is not None:
            request.tee.version = tee.version
            request.tee.fraction = tee.fraction
        return int(self._call("SetAspired", request, "SetAspiredResponse", _PUSH_TIMEOUT).revision)

    def status(self, servable: str = "") -> EngineStatus:
        """Where everything stands now, or one servable alone."""
        request = message("tidegate.v1.GetStatusRequest")(servable=servable)
        return from_status(self._call("GetStatus", request, "GetStatusResponse"))

    def watch(self, servable: str = "") -> Iterator[StateChange]:
        """The present state of every version first, then each change as it happens, until the client is closed.

        Raises Unavailable when the engine goes away; watch again then, nothing is lost but what lay between.
        """
        return self._watch(servable, timeout=None)

    def wait_until(self, servable: str, version: int, state: State, timeout: float) -> StateChange:
        """The change by which a version entered `state`; at once if it is there already.

        Raises the version's own error when it ENDs with one, DeadlinePassed after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        last = "unknown to the engine"
        try:
            for change in self._watch(servable, timeout=timeout):
                if change.id.version != version:
                    continue
                if change.state is State.END and change.error_code and state is not State.END:
                    raise error_of(change.error_code, change.error_message)
                if change.state is state:
                    return change
                last = change.state.name
        except DeadlinePassed:
            pass
        waited = timeout - max(0.0, deadline - time.monotonic())
        raise DeadlinePassed(
            f"{servable}:{version} is not {state.name} after {waited:.1f} s, it is {last}: wait longer"
        )

    def close(self) -> None:
        """Closes the connection; watches end."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _watch(self, servable: str, timeout: float | None) -> Iterator[StateChange]:
        call = self._channel.unary_stream(
            f"/{SERVICE}/WatchStates",
            request_serializer=_serialize,
            response_deserializer=message("tidegate.v1.StateEvent").FromString,
        )
        stream = call(message("tidegate.v1.WatchStatesRequest")(servable=servable), timeout=timeout)
        try:
            for event in stream:
                yield from_event(event)
        except grpc.RpcError as error:
            if _closed_here(error):
                return
            raise from_rpc(error, self._address) from error
        finally:
            stream.cancel()

    def _call(self, method: str, request: Any, answer: str, timeout: float = _CALL_TIMEOUT) -> Any:
        decode: Callable[[bytes], Any] = message(f"tidegate.v1.{answer}").FromString
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}", request_serializer=_serialize, response_deserializer=decode
        )
        try:
            return call(request, timeout=timeout)
        except grpc.RpcError as error:
            raise from_rpc(error, self._address) from error


def _aspired_message(version: Aspired) -> Any:
    return message("tidegate.v1.AspiredVersion")(
        version=version.version, path=str(version.path), manifest_digest=version.manifest_digest
    )


def _serialize(request: Any) -> bytes:
    data: bytes = request.SerializeToString()
    return data


def _closed_here(error: grpc.RpcError) -> bool:
    status: Any = error
    return bool(status.code() is grpc.StatusCode.CANCELLED)
