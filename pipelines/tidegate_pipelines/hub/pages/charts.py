"""Charts as geometry: from numbers over time to places in per cent, which the templates draw as SVG.

Each chart carries the words for whoever cannot see it: a title, a sentence, and the same numbers as a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

WIDE, HIGH = 1000.0, 100.0
"""The units of paths; the browser stretches them to the room that there is."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LINES = 4
_DATES = 4
_NARROW = 1.2
_YOUNG = timedelta(days=2)
_MINUTES = timedelta(minutes=10)
_SHORTEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Span:
    """The time that a chart covers: days as a whole, or less where something is known only since then."""

    start: datetime
    end: datetime

    @classmethod
    def of_days(cls, days: int, now: datetime, known_since: datetime | None = None) -> Span:
        """The last days as a whole, today among them; of what is known for less than two days, all since then."""
        if known_since is not None and now - known_since < _YOUNG:
            return cls(known_since, max(now, known_since + _SHORTEST))
        tomorrow = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        return cls(tomorrow - timedelta(days=days), tomorrow)

    @property
    def step(self) -> timedelta:
        """How long a bar of it lasts: a day, or an hour in less than two days."""
        return timedelta(days=1) if self.end - self.start >= _YOUNG else timedelta(hours=1)

    def in_steps(self) -> Span:
        """The same, from the beginning of its first bar to the end of its last one."""
        if self.step == timedelta(days=1):
            return self
        first = self.start.replace(minute=0, second=0, microsecond=0)
        return Span(first, first + math.ceil((self.end - first) / self.step) * self.step)

    def place(self, moment: datetime) -> float:
        """Where a moment lies, 0 to 100."""
        whole = (self.end - self.start).total_seconds() or 1.0
        share = (moment - self.start).total_seconds() / whole
        return round(100 * min(1.0, max(0.0, share)), 2)

    def dates(self) -> tuple[str, ...]:
        """A few dates, evenly from the first to the last."""
        step = (self.end - self.start) / (_DATES - 1)
        shown = [f"{self.start + step * number:{self._form}}" for number in range(_DATES)]
        return (*shown[:-1], f"{shown[-1]} UTC")

    def dates_of(self, columns: Sequence[Violin]) -> tuple[tuple[float, str], ...]:
        """A few of the columns, from the first to the last: where the middle of each lies, and when it begins, as
        exactly as tells them apart. Columns are as wide as they are many, whatever time lies between them."""
        last = len(columns) - 1
        shown = [columns[number] for number in dict.fromkeys(round(last * one / (_DATES - 1)) for one in range(_DATES))]
        for form in (self._form, "%-d %b %H:%M" if self.end - self.start > _YOUNG else "%H:%M:%S"):
            texts = [f"{one.start:{form}}" for one in shown]
            if len(set(texts)) == len(texts):
                break
        texts[-1] += " UTC"
        return tuple((round(one.x + one.width / 2, 2), text) for one, text in zip(shown, texts, strict=True))

    @property
    def _form(self) -> str:
        whole = self.end - self.start
        return "%-d %b" if whole > _YOUNG else "%H:%M" if whole > _MINUTES else "%H:%M:%S"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened, such as a release: where and when, a short label, and in words."""

    x: float
    at: datetime
    label: str
    words: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """One value: its slot from `x` over `width`, its height (100 is the top), a word for its shape, and words."""

    x: float
    width: float
    y: float
    words: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One series: its name, the word that its colour and dashes go by, its path, and its values."""

    name: str
    kind: str
    path: str
    spots: tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The same as a table."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines or bars over time."""

    key: str
    title: str
    sentence: str
    lines: tuple[Line, ...]
    bars: tuple[Spot, ...]
    heights: tuple[str, ...]
    dates: tuple[str, ...]
    marks: tuple[Mark, ...]
    table: Table


@dataclass(frozen=True, slots=True)
class Run:
    """Windows of one state in a row, as a block in a lane."""

    x: float
    width: float
    state: str
    words: str


@dataclass(frozen=True, slots=True)
class Violin:
    """How a feature was spread in windows since `start`: a path in 0 to 100, and whether that was too far from
    training."""

    x: float
    width: float
    start: datetime
    path: str
    state: str
    words: str


@dataclass(frozen=True, slots=True)
class Bars:
    """One bin: lengths (0 to 100) and words of training and served."""

    label: str
    training: float
    served: float
    training_words: str
    served_words: str
    change: str


@dataclass(frozen=True, slots=True)
class Series:
    """What a line is drawn from."""

    name: str
    kind: str
    values: Sequence[tuple[datetime, float | None]]


@dataclass(frozen=True, slots=True)
class Window:
    """One window of one feature's skew."""

    start: datetime
    end: datetime
    state: str
    effect: float | None
    cause: str = ""
    shares: tuple[float, ...] = ()


Words = Callable[[float], str]


def line_chart(
    key: str, title: str, span: Span, series: Sequence[Series], words: Words, marks: Sequence[Mark]
) -> Chart:
    """Lines over time, each value at its moment; a gap where there is none."""
    top, heights = _scale([value for one in series for _, value in one.values if value is not None], words)
    lines = tuple(_line(one, span, top, words) for one in series)
    moments = sorted({moment for one in series for moment, _ in one.values})
    columns = [dict(one.values) for one in series]
    rows = tuple(
        (f"{moment:%-d %b %Y %H:%M}", *(_said(column.get(moment), words) for column in columns)) for moment in moments
    )
    table = Table(("When (UTC)", *(one.name for one in series)), rows)
    return Chart(key, title, _sentence(series, words), lines, (), heights, span.dates(), tuple(marks), table)


def bar_chart(key: str, title: str, span: Span, one: Series, words: Words, marks: Sequence[Mark]) -> Chart:
    """One bar for each value, as wide as the span's step: a day or an hour."""
    top, heights = _scale([value for _, value in one.values if value is not None], words)
    width, hourly = 100 * span.step / (span.end - span.start), span.step < timedelta(days=1)
    short, long, head = ("%H:%M", "%-d %b %Y %H:%M", "Hour (UTC)") if hourly else ("%-d %b", "%-d %b %Y", "Day (UTC)")
    bars = tuple(
        Spot(span.place(moment), round(width, 2), round(100 * value / top, 2), f"{moment:{short}}: {words(value)}")
        for moment, value in one.values
        if value is not None
    )
    rows = tuple((f"{moment:{long}}", _said(value, words)) for moment, value in one.values)
    table = Table((head, one.name), rows)
    return Chart(key, title, _sentence([one], words), (), bars, heights, span.dates(), tuple(marks), table)


def spark(values: Sequence[float]) -> str:
    """A path without scale, for a cell of a table; empty for fewer than two values."""
    if len(values) < 2:
        return ""
    top = max(values) or 1.0
    step = WIDE / (len(values) - 1)
    return "M" + "L".join(
        f"{number * step:.0f} {HIGH - 0.92 * HIGH * value / top:.0f}" for number, value in enumerate(values)
    )


def runs(windows: Sequence[Window], span: Span) -> tuple[Run, ...]:
    """One block for all windows in a row that have the same state."""
    found: list[Run] = []
    first = 0
    for number, one in enumerate(windows):
        following = windows[number + 1] if number + 1 < len(windows) else None
        if following is not None and following.state == one.state:
            continue
        start, end = windows[first].start, one.end
        left, right = span.place(start), span.place(end)
        cause = f": {one.cause}" if one.cause else ""
        said = f"{one.state}, {start:%-d %b} to {end:%-d %b}{cause[:200]}"
        found.append(Run(left, round(max(right - left, _NARROW), 2), one.state, said))
        first = number + 1
    return tuple(found)


def violins(windows: Sequence[Window], labels: Sequence[str], most: int) -> tuple[Violin, ...]:
    """How the shares of a feature's bins went, in at most `most` columns, each as wide as the share in a bin."""
    counted = [one for one in windows if len(one.shares) == len(labels)]
    groups = list(_groups(counted, most))
    highest = max((share for group in groups for share in _mean(group)), default=0.0) or 1.0
    found = []
    for number, group in enumerate(groups):
        worst = next((one.state for one in group if one.state in ("FAIL", "ERROR")), group[0].state)
        width, start = 100 / len(groups), group[0].start
        words = f"{group[0].start:%-d %b} to {group[-1].end:%-d %b}: {worst}"
        path = violin(_mean(group), highest)
        found.append(Violin(round(width * number, 2), round(width, 2), start, path, worst, words))
    return tuple(found)


def violin(shares: Sequence[float], highest: float) -> str:
    """The outline of one column: a bar in the middle for each bin, the first bin at the bottom."""
    high = 100 / len(shares)
    parts = []
    for number, share in enumerate(shares):
        half = 46 * share / highest
        top = 100 - high * (number + 1)
        parts.append(f"M{50 - half:.1f} {top + 0.08 * high:.1f}h{2 * half:.1f}v{0.84 * high:.1f}h{-2 * half:.1f}z")
    return "".join(parts)


def bin_bars(labels: Sequence[str], training: Sequence[float], served: Sequence[float], most: int) -> tuple[Bars, ...]:
    """Each bin's share in training and served; of more than `most` bins those that changed or hold most."""
    rows = [row for row in zip(labels, training, served, strict=True) if max(row[1], row[2]) > 0]
    if len(rows) > most:
        kept = sorted(rows, key=lambda row: -abs(row[1] - row[2]))[:most]
        rows = [row for row in rows if row in kept]
    highest = max((max(row[1], row[2]) for row in rows), default=0.0) or 1.0
    return tuple(
        Bars(
            label,
            round(100 * before / highest, 2),
            round(100 * now / highest, 2),
            f"{100 * before:.1f} %",
            f"{100 * now:.1f} %",
            f"{100 * (now - before):+z.1f}",
        )
        for label, before, now in rows
    )


def _line(one: Series, span: Span, top: float, words: Words) -> Line:
    spots, parts, pen = [], [], "M"
    width = round(100 / max(len(one.values), 1), 2)
    for moment, value in one.values:
        if value is None:
            pen = "M"
            continue
        x, y = span.place(moment), round(100 * value / top, 2)
        parts.append(f"{pen}{x * WIDE / 100:.1f} {HIGH - y:.1f}")
        pen = "L"
        spots.append(Spot(x, width, y, f"{one.name}, {moment:%-d %b %H:%M} UTC: {words(value)}", one.kind))
    return Line(one.name, one.kind, "".join(parts), tuple(spots))


def _scale(values: Sequence[float], words: Words) -> tuple[float, tuple[str, ...]]:
    """The top of a scale from 0 that is no odd number, and what its lines say, from the top down: no part of what is
    counted in whole numbers."""
    highest = max(values, default=0.0) or 1.0
    power = 10.0 ** math.floor(math.log10(highest / _LINES))
    step = next(step * power for step in _STEPS if step * power * _LINES >= highest * 0.999)
    if all(float(value).is_integer() for value in values):
        step = float(math.ceil(step))
    count = math.ceil(highest / step - 1e-9)
    return step * count, tuple(words(step * number) for number in range(count, -1, -1))


def _sentence(series: Sequence[Series], words: Words) -> str:
    found = []
    for one in series:
        values = [value for _, value in one.values if value is not None]
        if values:
            found.append(f"{one.name}: {words(min(values))} to {words(max(values))}, last {words(values[-1])}")
    return "; ".join(found) or "nothing was counted"


def _said(value: float | None, words: Words) -> str:
    return "–" if value is None else words(value)


def _groups(windows: Sequence[Window], most: int) -> Iterable[Sequence[Window]]:
    size = math.ceil(len(windows) / most) or 1
    for start in range(0, len(windows), size):
        yield windows[start : start + size]


def _mean(group: Sequence[Window]) -> list[float]:
    return [sum(shares) / len(group) for shares in zip(*(one.shares for one in group), strict=True)]
