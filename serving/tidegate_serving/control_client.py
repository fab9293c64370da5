"""A client of the control port: tells an engine what should be served and watches it come true.

Operators and the command line push, promote and roll back through it.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from tidegate_serving.channels import open_channel, token_metadata
from tidegate_serving.config.view import ConfigDiff, ConfigValue
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState, Shadow, VersionReference
from tidegate_serving.contract.errors import DeadlinePassed, InvalidInput, Tampered, error_of
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import State, StateChange
from tidegate_serving.control.config_service import from_config, from_reload
from tidegate_serving.control.messages import (
    SERVICE,
    from_event,
    from_journal_entry,
    from_status,
    optional,
    to_desired,
)
from tidegate_serving.control.overrides import Outcome, Overrides
from tidegate_serving.control.status import EngineStatus, ServableStatus, VersionStatus
from tidegate_serving.journal.entry import Entry
from tidegate_serving.wire_errors import from_rpc

__all__ = [
    "ControlClient",
    "DesiredState",
    "EngineStatus",
    "Entry",
    "Outcome",
    "ServableStatus",
    "Shadow",
    "VersionReference",
    "VersionStatus",
    "who_asks",
]
_PUSH_TIMEOUT = 600.0
_CALL_TIMEOUT = 30.0
_LOG_TIMEOUT = 600.0
_LOG_FILES = 1000
_LOG_FILE = re.compile(r"model=[\w.-]+/version=\d+/date=[\d-]+/[\w.-]+\.parquet")
_PLAIN_OVERRIDES = ("unpin", "freeze", "unfreeze", "disable", "enable")


def who_asks() -> str:
    """The user whose process this is, for `requested_by` where a person decides."""
    try:
        return os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


class ControlClient:
    """Speaks to the control port of one engine: `host:port`, an EngineConnection, or what TIDEGATE_* variables say.
    A context manager; safe to share between threads."""

    def __init__(self, connection: str | EngineConnection | None = None) -> None:
        found = EngineConnection.from_environment() if connection is None else EngineConnection.of(connection)
        self._connection = found
        self._metadata = token_metadata(found)
        self._channel = open_channel(found)

    def set_desired_state(
        self,
        desired: DesiredState,
        expected_revision: int | None = None,
        lead: int | None = None,
        admitted: Collection[str] = (),
    ) -> int:
        """Says which versions, labels and shadow a servable should have, as a whole; a version left out unloads.

        `expected_revision` is what `status` said, 0 for none yet: Conflict where somebody else made a change meanwhile.
        Of the versions, number, directory (as the engine sees it) and manifest digest count; the engine sets revision
        and time of the desired state itself. `lead` is for a fleet's controller alone: it tells a node since when it
        leads. `admitted` are SHA-256 in hex of manifests that an engine of the same fleet or group has admitted: here
        their verdicts count whatever their dates; signature, digest, decision and revocation are checked as ever.

        Returns the revision, which grows with each accepted change; the call returns before anything loads. Nothing
        changes when it raises: Tampered or NotAdmitted name the file, PermissionRefused a path outside the engine's
        roots, InvalidInput a label or shadow on a version that is not in the set.
        """
        request = message("tidegate.v1.SetDesiredStateRequest")(
            desired=to_desired(desired), expected_revision=expected_revision, lead=lead, admitted=admitted
        )
        return int(self._call("SetDesiredState", request, "SetDesiredStateResponse", _PUSH_TIMEOUT).revision)

    def servable(self, servable: str) -> ServableStatus:
        """Where one servable stands; with nothing wanted and nothing there where the engine does not know the name."""
        return self.status(servable).servable(servable) or ServableStatus(servable, DesiredState(servable))

    def desired(self, servable: str) -> DesiredState:
        """What should be served of a servable now; nothing where the engine does not know the name."""
        return self.servable(servable).desired

    def rollback(
        self,
        servable: str,
        version: int | None = None,
        *,
        from_version: int | None = None,
        requested_by: str,
        reason: str = "",
    ) -> Outcome:
        """Takes ordinary clients back to `version`, or to the one that they had before: at once where it is loaded,
        else as soon as it is; until then the present one serves.

        `from_version` makes it safe to repeat: where that does not serve any more, nothing changes. NotFound where
        there is nothing to go back to.
        """
        action = message("tidegate.v1.Rollback")(version=version, from_version=from_version)
        return self._operate(servable, requested_by, reason, rollback=action)

    def pin(self, servable: str, version: int, *, requested_by: str, reason: str = "") -> Outcome:
        """Ordinary traffic stays on a version, whatever sources propose, until `unpin`."""
        return self._operate(servable, requested_by, reason, pin=message("tidegate.v1.Pin")(version=version))

    def split(
        self,
        servable: str,
        shares: Mapping[int, float],
        *,
        key: str = "",
        until_us: int = 0,
        requested_by: str,
        reason: str = "",
    ) -> Outcome:
        """Divides ordinary traffic by shares that make 1, by the hash of request metadata `key` or, where that is
        empty, by request; without shares the split ends, else at `until_us` in Unix microseconds, 0 for never."""
        split = message("tidegate.v1.Split")(shares=dict(shares), key=key, until_us=until_us)
        return self._operate(servable, requested_by, reason, split=split)

    def block(self, servable: str, version: int, *, requested_by: str, reason: str) -> Outcome:
        """A version must not serve, now or later, until `unblock`. What served before takes its place; until that is
        there, and where there is nothing, no request is answered."""
        return self._operate(servable, requested_by, reason, block=message("tidegate.v1.Block")(version=version))

    def unblock(self, servable: str, version: int, *, requested_by: str, reason: str = "") -> Outcome:
        """A blocked version may serve again."""
        return self._operate(servable, requested_by, reason, unblock=message("tidegate.v1.Block")(version=version))

    def override(self, action: str, servable: str, *, requested_by: str, reason: str = "") -> Outcome:
        """`unpin`, `freeze` (changes are refused or held back), `unfreeze`, `disable` (the kill switch) or `enable`."""
        if action not in _PLAIN_OVERRIDES:
            raise InvalidInput(f"override {action!r} is unknown: use {', '.join(_PLAIN_OVERRIDES)}")
        return self._operate(servable, requested_by, reason, **{action: message("tidegate.v1.Nothing")()})

    def replace_overrides(
        self, servable: str, overrides: Overrides, *, lead: int, requested_by: str, reason: str = ""
    ) -> Outcome:
        """Has an engine obey these overrides of a servable in place of all that it has, as a fleet's controller does;
        also before it knows the servable. `lead` is since when the controller leads: FailedPrecondition from a node of
        a fleet that another one leads."""
        action = message("tidegate.v1.Overrides")(json=json.dumps(overrides.to_dict()), lead=lead)
        return self._operate(servable, requested_by, reason, overrides=action)

    def journal(self, since_us: int = 0, servable: str = "", newest: int = 0) -> list[Entry]:
        """What happened from a time on (Unix microseconds), oldest first; of more than `newest` the newest ones."""
        request = message("tidegate.v1.ReadJournalRequest")(since_us=since_us, servable=servable, newest=newest)
        return [from_journal_entry(entry) for entry in self._stream("ReadJournal", request, "JournalEntry", 120.0)]

    def copy_log(
        self,
        servable: str,
        versions: Sequence[int],
        folder: Path,
        *,
        since_us: int = 0,
        elsewhere: Collection[str] = (),
    ) -> None:
        """Makes `folder` a copy of what the engine's inference log has of these versions, in files written since
        `since_us` (Unix microseconds; 0 for all). What is there already is not fetched again, nor are files that the
        caller has `elsewhere`, and files that the log has no more are removed.

        Needs the role `release`, as a log holds what clients sent. FailedPrecondition where the engine keeps no log.
        """
        copied = {str(path.relative_to(folder)) for path in folder.glob("model=*/version=*/date=*/*.parquet")}
        request = message("tidegate.v1.ReadLogRequest")(servable=servable, versions=versions, since_us=since_us)
        present = next(self._stream("ReadLog", request, "LogPiece", _LOG_TIMEOUT)).present
        for path in copied - set(present):
            (folder / path).unlink()
        missing = [path for path in present if path not in copied and path not in elsewhere]
        for first in range(0, len(missing), _LOG_FILES):
            request.wanted[:] = missing[first : first + _LOG_FILES]
            pieces = self._stream("ReadLog", request, "LogPiece", _LOG_TIMEOUT)
            next(pieces)
            _write_files(pieces, folder)

    def set_log_level(self, level: str, logger: str = "", *, requested_by: str, reason: str = "") -> str:
        """How much the engine, or one of its loggers, logs from now on; the level before."""
        request = message("tidegate.v1.SetLogLevelRequest")(
            level=level, logger=logger, requested_by=requested_by, reason=reason
        )
        return str(self._call("SetLogLevel", request, "SetLogLevelResponse").before)

    def support(self) -> dict[str, bytes]:
        """What somebody needs who is to help, as files by name; without secrets and without model data."""
        request = message("tidegate.v1.GetSupportRequest")()
        return dict(self._call("GetSupport", request, "GetSupportResponse", _PUSH_TIMEOUT).files)

    def config(self) -> list[ConfigValue]:
        """What the engine lives by, every key with the place that its value came from."""
        return from_config(self._call("GetConfig", message("tidegate.v1.GetConfigRequest")(), "GetConfigResponse"))

    def reload(self, *, dry_run: bool = False, requested_by: str, reason: str = "") -> ConfigDiff:
        """Has the engine read its config again and live by it, all or nothing; what changed, or would change.

        Raises InvalidInput for a config that cannot be used, and FailedPrecondition for a key that only a restart can
        change; nothing has changed then.
        """
        request = message("tidegate.v1.ReloadRequest")(dry_run=dry_run, requested_by=requested_by, reason=reason)
        return from_reload(self._call("Reload", request, "ReloadResponse", _PUSH_TIMEOUT))

    def status(self, servable: str = "", timeout: float = _CALL_TIMEOUT) -> EngineStatus:
        """Where everything stands now, or one servable alone; DeadlinePassed after `timeout` seconds."""
        request = message("tidegate.v1.GetStatusRequest")(servable=servable)
        return from_status(self._call("GetStatus", request, "GetStatusResponse", timeout))

    def watch(self, servable: str = "") -> Iterator[StateChange]:
        """The present state of every version first, then each change as it happens, until the client is closed.

        Raises Unavailable when the engine goes away; watch again then, nothing is lost but what lay between.
        """
        return self._watch(servable, timeout=None)

    def wait_until(
        self, servable: str, version: int, state: State, timeout: float, *, waited: float = 0.0
    ) -> StateChange:
        """The change by which a version entered `state`; at once if it is there already.

        Raises the version's own error when it ENDs with one, DeadlinePassed after `timeout` seconds; its message counts
        the seconds that the caller has `waited` before, too.
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
        waited += timeout - max(0.0, deadline - time.monotonic())
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

    def _operate(self, servable: str, requested_by: str, reason: str, **action: Any) -> Outcome:
        request = message("tidegate.v1.OperationRequest")(
            servable=servable, requested_by=requested_by, reason=reason, **action
        )
        answer = self._call("Operate", request, "OperationResponse", _PUSH_TIMEOUT)
        versions = optional(answer, "from_version"), optional(answer, "to_version")
        return Outcome(answer.sentence, answer.changed, *versions)

    def _watch(self, servable: str, timeout: float | None) -> Iterator[StateChange]:
        request = message("tidegate.v1.WatchStatesRequest")(servable=servable)
        return map(from_event, self._stream("WatchStates", request, "StateEvent", timeout))

    def _stream(self, method: str, request: Any, answer: str, timeout: float | None) -> Iterator[Any]:
        call = self._channel.unary_stream(
            f"/{SERVICE}/{method}",
            request_serializer=_serialize,
            response_deserializer=message(f"tidegate.v1.{answer}").FromString,
        )
        stream = call(request, timeout=timeout, metadata=self._metadata)
        try:
            yield from stream
        except grpc.RpcError as error:
            if _closed_here(error):
                return
            raise from_rpc(error, self._connection) from error
        finally:
            stream.cancel()

    def _call(self, method: str, request: Any, answer: str, timeout: float = _CALL_TIMEOUT) -> Any:
        decode: Callable[[bytes], Any] = message(f"tidegate.v1.{answer}").FromString
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}", request_serializer=_serialize, response_deserializer=decode
        )
        try:
            return call(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise from_rpc(error, self._connection) from error


def _write_files(pieces: Iterator[Any], folder: Path) -> None:
    """Each under its own name once it is whole."""
    begun = ""
    for piece in pieces:
        if not _LOG_FILE.fullmatch(piece.path):
            raise Tampered(f"the engine sent a log file {piece.path!r}, which none is called: check which engine it is")
        place = folder / piece.path
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = place.with_suffix(".part")
        with aside.open("ab" if piece.path == begun else "wb") as stream:
            stream.write(piece.data)
        begun = piece.path
        if piece.last:
            aside.rename(place)


def _serialize(request: Any) -> bytes:
    data: bytes = request.SerializeToString()
    return data


def _closed_here(error: grpc.RpcError) -> bool:
    status: Any = error
    return bool(status.code() is grpc.StatusCode.CANCELLED)
