"""What status says of a model besides its table: who asked for what, what people decided, what waits, what is wrong.

The status command prints the lines; the engine's status comes in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate_serving.contract.servable import State

if TYPE_CHECKING:
    from tidegate_serving.control_client import DesiredState, ServableStatus

_SHOWN = 5


def lines(servable: ServableStatus) -> Iterator[tuple[str, str]]:
    """Lines with the word that they are coloured by, empty for plain ones."""
    yield from _decided(servable)
    yield from _waiting(servable)
    for version in servable.versions:
        if version.error_code:
            yield f"{servable.servable}:{version.version} {version.error_code}: {version.error_message}", "ERROR"


def notes(servables: Sequence[ServableStatus]) -> Iterator[str]:
    """What has to be known of versions that are there: each note once, with the versions that it is about."""
    about: dict[str, list[str]] = {}
    for servable in servables:
        for version in servable.versions:
            if version.state is not State.END:
                for note in version.notes:
                    about.setdefault(note, []).append(f"{servable.servable}:{version.version}")
    for note, versions in about.items():
        more = f" and {len(versions) - _SHOWN} more" if len(versions) > _SHOWN else ""
        yield f"{', '.join(versions[:_SHOWN])}{more} {note}"


def _decided(servable: ServableStatus) -> Iterator[tuple[str, str]]:
    name = servable.servable
    if servable.desired.requested_by:
        yield f"{name}: {_desired(servable.desired)}", ""
    for one in servable.overrides:
        yield f"{name}: {one.text}, by {one.requested_by}{_at(one.at_us)}{_why(one.reason)}", "WARN"
    if servable.disabled and not any(one.action == "disable" for one in servable.overrides):
        yield servable.disabled, "WARN"
    if servable.previous is not None:
        there = servable.version(servable.previous)
        how = "at once" if there is not None and there.state is State.AVAILABLE else "once it has loaded"
        yield f"{name}: a rollback goes to version {servable.previous}, {how}", ""


def _waiting(servable: ServableStatus) -> Iterator[tuple[str, str]]:
    name = servable.servable
    for label, version in sorted(servable.desired.labels.items()):
        now = servable.label(label)
        if now != version:
            where = "nowhere" if now is None else f"on {now}"
            yield f"{name}: label {label} is {where} and is to be on {version}", "WARN"
    held = servable.desired.numbers - {version.version for version in servable.versions}
    if held and any(one.action == "freeze" for one in servable.overrides):
        numbers = ", ".join(map(str, sorted(held)))
        yield f"{name}: held back until `tidegate unfreeze {name}`: versions {numbers}", "WARN"
    if servable.source_problem:
        yield f"{name}: {servable.source_problem}", "WARN"


def _desired(desired: DesiredState) -> str:
    numbers = ", ".join(map(str, sorted({*desired.numbers, *desired.unusable}))) or "nothing"
    labels = "".join(f", {label} on {version}" for label, version in sorted(desired.labels.items()))
    who = f"{desired.requested_by}{_at(desired.at_us)}{_why(desired.reason)}"
    return f"desired are {numbers}{labels} (revision {desired.revision}), by {who}"


def _at(at_us: int) -> str:
    return f" at {datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%S UTC}" if at_us else ""


def _why(reason: str) -> str:
    return f": {reason}" if reason else ""
