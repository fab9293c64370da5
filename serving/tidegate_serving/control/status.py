"""Where everything stands: one frozen picture of the engine for people and programs.

The engine makes an `EngineStatus`; the control port sends it and the control client rebuilds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.servable import State


@dataclass(frozen=True, slots=True)
class AdmittedBy:
    """The verdict that let a version in (SHA-256 of its file in hex), whose key signed it, and when (RFC 3339, UTC)."""

    verdict_digest: str
    key_id: str
    key_name: str
    admitted_at: str


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """One version: its state since when (Unix microseconds), its error if it has one, and the labels it carries.

    `admitted` is how it came in, None where nothing is remembered; `notes` what somebody who looks at it has to know:
    an override and until when, a revocation, no verdict at all.
    """

    version: int
    state: State
    error_code: str = ""
    error_message: str = ""
    since_us: int = 0
    path: str = ""
    manifest_digest: str = ""
    labels: tuple[str, ...] = ()
    admitted: AdmittedBy | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OverrideStatus:
    """What an operator decided, in words: `action` is pin, freeze, disable, split or block, `at_us` Unix microseconds,
    `version` that which is pinned or blocked, else 0."""

    action: str
    text: str
    requested_by: str = ""
    reason: str = ""
    at_us: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True)
class ServableStatus:
    """One servable: which source owns it, what that wants and who said so, and its versions, newest first.

    `ordinary` is the version that ordinary requests get where they are not split, None for none. `previous` is what a
    rollback goes back to, `kept` are versions that the engine holds although the source does not
    want them, for that or by an override; `overrides` are what operators decided, `disabled` says why no request is
    answered, `source_problem` what stands in the source's way.
    """

    servable: str
    desired: DesiredState
    source: str = ""
    versions: tuple[VersionStatus, ...] = ()
    ordinary: int | None = None
    previous: int | None = None
    kept: tuple[int, ...] = ()
    overrides: tuple[OverrideStatus, ...] = ()
    disabled: str = ""
    source_problem: str = ""

    @property
    def clients_get(self) -> int | None:
        """The version that ordinary clients get, or are to get once it is loaded, None for none: what is pinned, else
        what label `stable` is on, or the newest without that label, and where that is blocked what took its place."""
        pinned = self.overrides_of("pin")
        if pinned:
            return pinned[0].version
        stable = self.desired.stable
        blocked = any(one.version == stable for one in self.overrides_of("block"))
        return self.ordinary if blocked and self.ordinary is not None else stable

    def overrides_of(self, action: str) -> tuple[OverrideStatus, ...]:
        """What operators decided of one kind."""
        return tuple(one for one in self.overrides if one.action == action)

    def version(self, number: int) -> VersionStatus | None:
        """The status of one version, or None where the engine does not know it."""
        return next((status for status in self.versions if status.version == number), None)

    def label(self, name: str) -> int | None:
        """The version that a label names now, or None."""
        return next((status.version for status in self.versions if name in status.labels), None)


@dataclass(frozen=True, slots=True)
class ProblemStatus:
    """What stands in the way of a whole source since when (Unix microseconds); what it last had is kept."""

    source: str
    error_code: str
    error_message: str
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The whole engine. `log_path` is empty when logging is off; `counters` are those of `/metrics` by sample name;
    `problems` are those of whole sources, such as a store that cannot be listed."""

    servables: tuple[ServableStatus, ...]
    grpc_address: str
    rest_address: str
    log_path: str = ""
    counters: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[ProblemStatus, ...] = ()

    def servable(self, name: str) -> ServableStatus | None:
        """The status of one servable, or None where the engine does not know it."""
        return next((status for status in self.servables if status.servable == name), None)
