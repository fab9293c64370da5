"""Columns that write a part of the event's date that changes seldom, such as `2026-W17`, `2026-04` or `April`: each
window holds others than training, which is no skew, as long as they go by the date.

What is compared is whether they do. A day before or after counts as the date's, as places and books end their days.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.schema import CHECK as SCHEMA
from tidegate_validation.skew.compare import Comparison
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import to_numpy
from tidegate_validation.statistics.bins import DiscreteBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import Family, as_number, family, quote, text_literal

OTHER_DATE = "another date"
_DAY = 86_400
_ALL = 0.995
_LEAST_ROWS = 20
_BETWEEN = ("-", "/", "", " ", ".", "_")
_FORMS = (
    *(f"%Y{sign}%m" for sign in _BETWEEN),
    *(f"%m{sign}%Y" for sign in _BETWEEN),
    *(f"%G{sign}{week}%V" for sign in _BETWEEN for week in ("W", "KW", "")),
    *(f"{month}{sign}%Y" for sign in _BETWEEN for month in ("%b", "%B")),
    *(f"%Y{sign}{month}" for sign in _BETWEEN for month in ("%b", "%B")),
    *(f"%Y{sign}Q%q" for sign in _BETWEEN),
    *(f"Q%q{sign}%Y" for sign in _BETWEEN),
    *("%B", "%b", "%Y", "W%V", "KW%V", "KW %V", "Q%q"),
)
"""As in C, and `%q` for the quarter."""
_OF_NUMBERS = ("%Y%m", "%G%V")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_LOOKED_AT, _MOST_TEXTS = 5_000, 200
_KEPT = (SCHEMA, Aspect.MISSING.value)


@dataclass(frozen=True, slots=True)
class CalendarText:
    """A column that writes the date of the event in a `form`; what it `held` alone in training it may hold further:
    nothing told there whether that goes by the date, as a month does, or stays, as a price list does."""

    column: str
    form: str
    held: tuple[str, ...] = ()

    def name(self, time: str) -> str:
        """What the column that says whether it does is called."""
        return f"{self.column} against {self.form} of {time}"

    def off(self, time: str, types: Mapping[str, str]) -> str:
        """SQL that is 0 where the text is that of the event's date, or of the day before or after, or held all along,
        and else 1."""
        value = f"CAST({quote(self.column)} AS VARCHAR)"
        of_date = [_written(self.form, time, types, days) for days in (-1, 0, 1)]
        texts = ", ".join([*of_date, *map(text_literal, self.held)])
        return f"CASE WHEN {value} IS NULL OR {value} = '' THEN NULL WHEN {value} IN ({texts}) THEN 0 ELSE 1 END"


def _written(form: str, time: str, types: Mapping[str, str], days: int) -> str:
    """SQL for how the date so many `days` from the event's is written."""
    seconds = f"floor({as_number(time, types[time])}) + {days * _DAY}"
    moment = f"make_timestamp(TRY_CAST({seconds} AS BIGINT) * 1000000)"
    before, quarter, after = form.partition("%q")
    parts = [f"strftime({moment}, {text_literal(one)})" for one in (before, after) if one]
    if quarter:
        parts.insert(1 if before else 0, f"CAST(quarter({moment}) AS VARCHAR)")
    return f"concat({', '.join(parts)})"


def calendar_texts(relation: Relation, columns: Sequence[str], time: str) -> list[CalendarText]:
    """Which of the `columns` write the date of the event's `time`, with the first form that does."""
    forms = {name: _forms_of(relation.types[name]) for name in columns if _forms_of(relation.types[name])}
    if not forms:
        return []
    sql = {name: f"CAST({quote(name)} AS VARCHAR)" for name in forms}
    sampled = relation.sample({**sql, time: as_number(time, relation.types[time])})
    step = max(1, sampled.num_rows // _LOOKED_AT)
    seconds = to_numpy(sampled[time]).astype(np.float64)[::step]
    usable = np.isfinite(seconds)
    days = np.where(usable, np.floor(np.where(usable, seconds, 0.0) / _DAY), 0).astype(np.int64)
    dates = {day: [np.datetime64(day + one, "D").item() for one in (-1, 0, 1)] for day in np.unique(days).tolist()}
    found = []
    for name, known in forms.items():
        pairs = Counter(
            (text, day)
            for text, day, timed in zip(sampled[name].to_pylist()[::step], days.tolist(), usable, strict=True)
            if text and timed
        )
        if pairs.total() >= _LEAST_ROWS and len({text for text, _ in pairs}) <= _MOST_TEXTS:
            form = next((one for one in known if _is_written(one, pairs, dates)), None)
            found += [CalendarText(name, form)] if form is not None else []
    return found


def _forms_of(sql_type: str) -> tuple[str, ...]:
    kind = family(sql_type)
    return _FORMS if kind is Family.TEXT else _OF_NUMBERS if kind is Family.INTEGER else ()


def _is_written(form: str, pairs: Counter[tuple[str, int]], dates: Mapping[int, Sequence[date]]) -> bool:
    """Whether nearly all texts, each with the day of the event, are that day's in a form, or its neighbours'."""
    left = (1 - _ALL) * pairs.total()
    for (text, day), n in pairs.items():
        if text not in {_text(form, one) for one in dates[day]}:
            left -= n
        if left < 0:
            return False
    return True


def _text(form: str, day: date) -> str:
    """As DuckDB writes it, whatever the language of this machine."""
    year, week, _ = day.isocalendar()
    name = _MONTHS[day.month - 1]
    parts = {"%Y": f"{day.year}", "%m": f"{day.month:02d}", "%G": f"{year}", "%V": f"{week:02d}", "%B": name}
    for sign, text in {**parts, "%b": name[:3], "%q": f"{(day.month + 2) // 3}"}.items():
        form = form.replace(sign, text)
    return form


def known_calendar_texts(profile: Profile, time: str) -> list[CalendarText]:
    """Those that a profile knows."""
    ends = {CalendarText("", form).name(time): form for form in _FORMS}
    found = ((name, end) for name in profile.features for end in ends if name.endswith(end))
    return [
        CalendarText(name.removesuffix(end), ends[end], _held(profile.counts[name], ends[end])) for name, end in found
    ]


def _held(counts: FeatureCounts, form: str) -> tuple[str, ...]:
    """The texts that are those of every day of training."""
    days = counts.blocks[counts.n.sum(axis=1) > 0].tolist()
    of_days = [{_text(form, np.datetime64(day + one, "D").item()) for one in (-1, 0, 1)} for day in days]
    return tuple(sorted(set.intersection(*of_days))) if of_days else ()


def told_of_calendar_texts(
    comparison: Comparison, profile: Profile, columns: Sequence[CalendarText], time: str, floor: float
) -> Comparison:
    """The comparison with what was found of these columns told of them by name: a FAIL where more than a share `floor`
    of the rows does not go by the date."""
    names = {one.name(time): one for one in columns}
    findings = dict[str, Sequence[Finding]]()
    for name, found in comparison.findings.items():
        one = names.get(name)
        bins = profile.features[name].bins if one is not None else None
        if one is None or not isinstance(bins, DiscreteBins) or name not in comparison.counts:
            findings[name if one is None else one.column] = [_of_column(finding, name, one) for finding in found]
            continue
        counts = comparison.counts[name]
        share = float(counts.of((bins.unseen,)).sum()) / max(counts.rows, 1)
        since = (found[0].cause or {}).get("since")
        kept = [_of_column(finding, name, one) for finding in found if finding.check in _KEPT]
        findings[one.column] = [_told(one.column, time, share, floor, since), *kept]
    return comparison.told(findings, names)


def _of_column(finding: Finding, name: str, one: CalendarText | None) -> Finding:
    if one is None:
        return finding
    return replace(finding, subject=one.column, sentence=finding.sentence.replace(f"`{name}`", f"`{one.column}`", 1))


def _told(column: str, time: str, share: float, floor: float, since: str | None) -> Finding:
    if share <= floor:
        words = f"`{column}`: goes by the date of `{time}`, as in training"
        return Finding(Aspect.DISTRIBUTION.value, column, Outcome.PASS, words, number=share, limit=floor)
    words = f"`{column}`: {100 * share:.1f} % of the rows hold another one than the date of `{time}` says"
    words += f", since {since}" if since else ""
    cause = {"kind": OTHER_DATE, "share": round(share, 4), **({"since": since} if since else {})}
    return Finding(Aspect.DISTRIBUTION.value, column, Outcome.FAIL, words, number=share, limit=floor, cause=cause)
