"""Accepts a window of what a version was sent as what it is compared with from now on, instead of its training data.

The window's profile lies beside the version, and every later skew report of that version reads it; the next version
begins with its own training data again.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from tidegate_serving.contract import times
from tidegate_serving.contract.errors import FailedPrecondition, NotFound, Unsupported
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import profile_directory, reference_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.files import folder_aside, remove_folder
from tidegate_serving.files.exchange import exchange

ACCEPTED = "accepted.json"
_TIME = "tidegate_event_time"
FEWEST_ROWS = 500
"""Fewer rows say too little of how a feature is spread to compare others with them."""


@dataclass(frozen=True, slots=True)
class AcceptedReference:
    """A window of `rows` requests that version `id` is compared with; `directory` has its profile."""

    id: ServableId
    since: datetime
    until: datetime
    rows: int
    directory: Path


def accept_reference(*, directory: Path, log_root: Path, since: datetime, until: datetime) -> AcceptedReference:
    """Makes the profile of what the version in `directory` was sent from `since` up to but without `until`, times of
    the event, and puts it in the place of one that was accepted before.

    NotFound where the version has no training profile, which says what its features are; FailedPrecondition for a
    window of fewer than 500 rows, or one that lacks a feature.
    """
    from tidegate_validation.statistics.blocks import BlockUnit
    from tidegate_validation.statistics.build import make_profile
    from tidegate_validation.statistics.profile import read_profile, write_profile
    from tidegate_validation.statistics.sql import quote
    from tidegate_validation.statistics.window import log_window

    identity = read_manifest(directory)[0].id
    trained = read_profile(profile_directory(directory))
    names = [feature.name for feature in trained.inputs]
    with log_window(log_root, model=identity.name, version=identity.version, since=since, until=until) as window:
        if window.rows < FEWEST_ROWS:
            raise FailedPrecondition(
                f"{identity} was sent {window.rows} rows from {times.to_text(since)} to {times.to_text(until)}: take a "
                f"window with at least {FEWEST_ROWS}"
            )
        if lacking := [name for name in names if name not in window.columns]:
            raise FailedPrecondition(f"the inference log of {identity} lacks {', '.join(lacking)}: log every input")
        kept = [f"{quote(window.columns[name])} AS {quote(name)}" for name in names]
        time = f"{quote(window.event_time or '')} AS {quote(_TIME)}"
        table = window.connection.sql(f"SELECT {', '.join([*kept, time])} FROM {window.relation}").to_arrow_table()
    by_day = trained.block_unit is BlockUnit.DAY
    found = make_profile(table, features=names, label=None, event_time=_TIME if by_day else None)
    place = reference_directory(directory)
    with _instead_of(place) as aside:
        write_profile(replace(found, event_time=trained.event_time), aside)
        said = {"since": times.to_text(since), "until": times.to_text(until), "rows": found.rows}
        (aside / ACCEPTED).write_text(json.dumps(said) + "\n")
    return AcceptedReference(identity, since, until, found.rows, place)


@contextlib.contextmanager
def _instead_of(place: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of what lies there in one step; where the file system has no such step
    (NFS), there is none for a moment."""
    if not place.exists():
        with folder_aside(place) as aside:
            yield aside
        return
    newer = place.with_name(f".{place.name}.newer")
    remove_folder(newer)
    with folder_aside(newer) as aside:
        yield aside
    try:
        exchange(newer, place)
    except Unsupported:
        remove_folder(place)
        newer.rename(place)
    remove_folder(newer)


def remove_reference(directory: Path) -> None:
    """Removes what was accepted for the version in `directory`, if anything was, with what crashes left of it."""
    place = reference_directory(directory)
    name, mark = re.escape(place.name), r"\.[0-9a-f]{8}\.(aside|removed)"
    left = re.compile(rf"\.{name}({mark}|\.newer)|\.\.{name}\.newer{mark}")
    for folder in [child for child in place.parent.iterdir() if left.fullmatch(child.name)]:
        shutil.rmtree(folder)
    remove_folder(place)


def find_reference(directory: Path) -> tuple[Path, str]:
    """The profile that a version is compared with, and what it is in words. NotFound where it has none."""
    place = reference_directory(directory)
    with contextlib.suppress(FileNotFoundError):
        said = json.loads((place / ACCEPTED).read_bytes())
        return place, f"what it was sent from {said['since']} to {said['until']}, which was accepted"
    profile = profile_directory(directory)
    if not profile.is_dir():
        identity = read_manifest(directory)[0].id
        raise NotFound(f"{directory} has no training profile: publish {identity} with its training data")
    return profile, "its training data"
