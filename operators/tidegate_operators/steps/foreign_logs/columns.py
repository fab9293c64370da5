"""Requests of a log as columns, each of one kind: what most requests send is the column's, and others are left out.

Each request has one vote, however many examples it asks for, so that one client cannot outvote the rest with one call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.foreign_logs.kinds import as_column, fits, kind_of, usual_kind
from tidegate_operators.steps.foreign_logs.requests import Request, Unread
from tidegate_operators.steps.foreign_logs.rows import Row

if TYPE_CHECKING:
    import pyarrow as pa

ADDED = ("request_id", "time")
"""Columns that a log of another server brings besides inputs and outputs."""
_MOST_UNKNOWN = 256
_RARE = 0.01


def as_columns(requests: Sequence[Request], known: Collection[str]) -> tuple[dict[str, pa.Array], list[Unread]]:
    """The columns by name, and the requests that do not fit in. `known` are columns that the other table has: of others
    there may be some, but a request that alone brings many more of them is left out."""
    left_out: list[Unread] = []
    asked = [one for one in requests if one.rows]
    for check in (_with_own_names, lambda kept: _with_few_names(kept, known), _of_one_kind):
        asked, unfit = check(asked)
        left_out += unfit
    rows = [row for one in asked for row in one.rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: as_column([row.get(name) for row in rows]) for name in names}
    added: dict[str, list[Any]] = {"request_id": [one.name for one in asked for _ in one.rows]}
    times = [_moment(one.time) for one in asked for _ in one.rows]
    if all(times):
        added["time"] = times
    return {**{name: as_column(values) for name, values in added.items() if name not in columns}, **columns}, left_out


def _with_own_names(asked: list[Request]) -> tuple[list[Request], list[Unread]]:
    """Without requests that have no time where most have, or an input with a name of the log's own where most have
    none."""
    bad: dict[int, str] = {}
    for name in ADDED:
        having = [place for place, one in enumerate(asked) if any(name in row for row in one.rows)]
        if 2 * len(having) <= len(asked):
            bad |= dict.fromkeys(having, f"it has an input {name!r}, which is the log's own")
    without = [place for place, one in enumerate(asked) if one.time is None]
    if 2 * len(without) < len(asked):
        bad |= dict.fromkeys(without, "it has no time, which most have")
    return _divided(asked, bad)


def _with_few_names(asked: list[Request], known: Collection[str]) -> tuple[list[Request], list[Unread]]:
    """Without requests that bring columns which hardly any other has, where there are many such."""
    having = Counter(name for one in asked for name in {name for row in one.rows for name in row} if name not in known)
    if len(having) <= _MOST_UNKNOWN:
        return asked, []
    rare = {name for name, count in having.items() if count <= max(1, _RARE * len(asked))}
    bad = {}
    for place, one in enumerate(asked):
        strange = next((name for row in one.rows for name in row if name in rare), None)
        if strange is not None:
            bad[place] = f"it has an input {strange!r}, as hardly any other request has"
    return _divided(asked, bad)


def _of_one_kind(asked: list[Request]) -> tuple[list[Request], list[Unread]]:
    """Without requests that hold a value of another kind than most requests have in its column."""
    kinds = [_kinds(one.rows) for one in asked]
    votes: dict[str, Counter[str]] = {}
    for told in kinds:
        for name, found in told.items():
            votes.setdefault(name, Counter()).update(list(found))
    usual = {name: usual_kind(count) for name, count in votes.items()}
    bad = {}
    for place, told in enumerate(kinds):
        unfit = [(name, kind) for name, found in told.items() for kind in found if not fits(kind, usual[name])]
        if unfit:
            name, kind = unfit[0]
            most = usual[name]
            bad[place] = f"{name!r} is {kind}" + (f", where most have {most}" if most is not None else "")
    return _divided(asked, bad)


def _kinds(rows: Sequence[Row]) -> dict[str, dict[str, None]]:
    """The kinds of values that each column has in one request."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, value in row.items():
            kind = kind_of(value)
            if kind is not None:
                found.setdefault(name, {})[kind] = None
    return found


def _divided(asked: list[Request], bad: dict[int, str]) -> tuple[list[Request], list[Unread]]:
    kept = [one for place, one in enumerate(asked) if place not in bad]
    return kept, [Unread(asked[place].where, why) for place, why in sorted(bad.items())]


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
