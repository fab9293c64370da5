"""Finds what somebody did to an audit log: lines that are missing, changed, or in another order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate_pipelines.hub.audit.line import Line
from tidegate_pipelines.hub.audit.log import PRUNE, AuditLog

if TYPE_CHECKING:
    from tidegate_pipelines.hub.audit.export import ExportStore


_LOOKS = 3
"""A log that is pruned while it is read looks wrong; one that stays as it is does not."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at a line: `missing`, `changed`, `reordered` or `replaced`, and in words."""

    number: int
    kind: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found in `lines` lines from `first` to `last`; `head` is the last line's hash, to be noted elsewhere."""

    lines: int
    first: int
    last: int
    head: str
    faults: tuple[Fault, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


def verify_lines(lines: Iterable[Line], head: tuple[int, str] | None = None) -> Verification:
    """Checks lines in the order in which they are kept; `head` is number and hash of the newest line, as whoever asks
    knows it.

    A log may begin after line 1 where one of its lines says that it was pruned up to there.
    """
    kept = list(lines)
    faults = _order(kept)
    ordered = sorted(_once(kept), key=lambda line: line.number)
    faults += _beginning(ordered)
    for at, line in enumerate(ordered):
        before = ordered[at - 1] if at else None
        faults += _line((before.number, before.hash) if before is not None else None, line)
    if head is not None:
        faults += _end(ordered, head)
    first, last = (ordered[0], ordered[-1]) if ordered else (None, None)
    return Verification(
        len(ordered),
        first.number if first else 0,
        last.number if last else 0,
        last.hash if last else "",
        tuple(sorted(faults, key=lambda fault: fault.number)),
    )


def verify_database(log: AuditLog) -> Verification:
    """Checks the log in the database, its newest line among it."""
    for _ in range(_LOOKS):
        head = log.head()
        found = verify_lines((line for line in log.lines() if line.number <= head[0]), head)
        if found.whole or log.head() == head:
            break
    return found


def verify_since(log: AuditLog, known: Verification) -> Verification | None:
    """What is known of a whole log, carried on over the lines that came since, without the others being read again.
    None where those do not follow: then nothing but a look at every line tells what is wrong."""
    head = log.head()
    first, last = known.first, (known.last, known.head)
    for line in log.lines(after=known.last):
        if line.number > head[0]:
            break
        if _line(last, line):
            return None
        first, last = first or line.number, (line.number, line.hash)
        if line.act.action == PRUNE:
            first = max(first, int(str(line.act.detail["up_to"])) + 1)
    if last != head:
        return None
    return Verification(last[0] - first + 1 if first else 0, first, *last, ())


def verify_export(store: ExportStore, log: AuditLog | None = None) -> Verification:
    """Checks an export, and with `log` that the database says the same about every line that both have, and has every
    line of the export but those that it was pruned of."""
    exported = list(store.read())
    found = verify_lines(exported)
    if log is None:
        return found
    kept = {line.number: line.hash for line in log.lines()}
    first = min(kept, default=1)
    faults = [
        fault
        for line in _once(exported)
        if line.number >= first and (fault := _against(kept, line, store.url)) is not None
    ]
    return Verification(found.lines, found.first, found.last, found.head, (*found.faults, *faults))


def _against(kept: Mapping[int, str], line: Line, place: str) -> Fault | None:
    """What is wrong with a database that keeps these hashes by number, seen from an exported line."""
    number = line.number
    if number not in kept:
        return Fault(
            number, "missing", f"line {number} is missing in the database, {place} has it: restore it from there"
        )
    if kept[number] != line.hash:
        return Fault(number, "replaced", f"line {number} differs between the database and {place}: one was rewritten")
    return None


def _once(lines: Iterable[Line]) -> list[Line]:
    """Exports may overlap: the same line twice is no fault."""
    return list({(line.number, line.hash): line for line in lines}.values())


def _order(kept: Sequence[Line]) -> list[Fault]:
    faults: list[Fault] = []
    seen: dict[int, str] = {}
    highest = 0
    for line in kept:
        if seen.get(line.number) == line.hash:
            continue
        if line.number < highest:
            faults.append(
                Fault(line.number, "reordered", f"line {line.number} stands after line {highest}: they were reordered")
            )
        seen[line.number] = line.hash
        highest = max(highest, line.number)
    return faults


def _beginning(ordered: Sequence[Line]) -> list[Fault]:
    if not ordered or ordered[0].number == 1:
        return []
    first = ordered[0]
    up_to = first.number - 1
    for line in ordered:
        said = line.act.detail
        if line.act.action == PRUNE and said.get("up_to") == up_to and said.get("hash") == first.before:
            return []
    return [
        Fault(
            1,
            "missing",
            f"lines 1 to {up_to} are missing, and no line says that the log was pruned up to there: restore them from "
            "an export",
        )
    ]


def _line(previous: tuple[int, str] | None, line: Line) -> list[Fault]:
    """What is wrong with a line after the one of this number and hash."""
    faults = []
    if line.counted_hash() != line.hash:
        faults.append(Fault(line.number, "changed", f"line {line.number} was changed: its content has another hash"))
    if previous is None:
        if line.number == 1 and line.before:
            faults.append(Fault(1, "replaced", "line 1 says that another line came before it: it was replaced"))
        return faults
    number, hash_before = previous
    between = line.number - number - 1
    if between > 0:
        which = f"line {line.number - 1} is" if between == 1 else f"lines {number + 1} to {line.number - 1} are"
        faults.append(Fault(number + 1, "missing", f"{which} missing: restore what is missing from an export"))
    elif line.before != hash_before:
        sentence = f"line {line.number} does not follow line {number} as it is now: one of both was replaced"
        faults.append(Fault(line.number, "replaced", sentence))
    return faults


def _end(ordered: Sequence[Line], head: tuple[int, str]) -> list[Fault]:
    number, newest = head
    last = ordered[-1].number if ordered else 0
    if last < number:
        which = f"line {number} is" if number - last == 1 else f"lines {last + 1} to {number} are"
        return [Fault(last + 1, "missing", f"{which} missing at the end: restore what is missing from an export")]
    if last > number:
        return [Fault(last, "replaced", f"line {last} is newer than the newest line on record, {number}")]
    if ordered and ordered[-1].hash != newest:
        return [Fault(last, "replaced", f"line {last} is not the one on record as the newest: it was replaced")]
    return []
