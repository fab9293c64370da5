"""Compares a window of served examples with a training profile: schema first, then numbers, rule, cause and finding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.coarsened import coarsened
from tidegate_validation.skew.columns.copied import copied_columns
from tidegate_validation.skew.columns.decided import new_where_decided
from tidegate_validation.skew.columns.ends import ends_gone
from tidegate_validation.skew.columns.exchanged import exchanged_rows, told_of_exchanged
from tidegate_validation.skew.columns.gaps import rows_missing
from tidegate_validation.skew.columns.growing import Growing, told_of_growth
from tidegate_validation.skew.columns.missing import said_as_text, said_where
from tidegate_validation.skew.columns.narrowed import narrowed
from tidegate_validation.skew.columns.odd_texts import told_of_odd_texts
from tidegate_validation.skew.columns.one_hot import broken_groups
from tidegate_validation.skew.columns.renamed import with_new_names
from tidegate_validation.skew.columns.repeated import columns_that_tell_rows, repeated_rows
from tidegate_validation.skew.columns.reused import reused
from tidegate_validation.skew.columns.schema import compare_schema
from tidegate_validation.skew.columns.texts import count_on, finding_of_texts, shortened
from tidegate_validation.skew.columns.together import looser_columns, of_fewer_rows
from tidegate_validation.skew.columns.vanished import finding_of, may_have_vanished, vanished
from tidegate_validation.skew.columns.vectors import finding_of_vectors
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.finding import about_missing_values, findings_of
from tidegate_validation.skew.inquiry import Inquiry
from tidegate_validation.skew.measures.days import days_of_missing_values, unlike_days
from tidegate_validation.skew.measures.growth import Growth, growths_of
from tidegate_validation.skew.measures.likeness import Likeness
from tidegate_validation.skew.measures.numbers import FeatureNumbers, likeness_of, measure_feature
from tidegate_validation.skew.measures.onset import date_of, onset
from tidegate_validation.skew.rule import Aspect, Judgement, SkewRule, judge
from tidegate_validation.statistics.counting import count_rows
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.points import digits_name
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.rows import Rows, read_rows
from tidegate_validation.statistics.sample import TextSample, ValueSample
from tidegate_validation.statistics.sql import Family, family, quote
from tidegate_validation.statistics.texts import CHARACTERS, LAST_CHARACTER, measured_texts
from tidegate_validation.statistics.vectors import measured, measured_window
from tidegate_validation.statistics.window import Window

_OF_NULLS = '"NULL"'


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that is known about how a window differs from a profile; `findings` by feature, the gravest first.

    Of features in `unlogged` nothing is known, for the log holds hashes of them (`hash`) or nothing (`omit`).
    """

    rows: int
    findings: Mapping[str, Sequence[Finding]]
    numbers: Mapping[str, FeatureNumbers] = field(default_factory=dict)
    causes: Mapping[str, Cause] = field(default_factory=dict)
    counts: Mapping[str, FeatureCounts] = field(default_factory=dict)
    unlogged: Mapping[str, str] = field(default_factory=dict)

    def told(self, findings: Mapping[str, Sequence[Finding]], made: Collection[str]) -> Comparison:
        """The same with these findings, and without what is known of columns that were `made` for it alone."""
        return replace(
            self,
            findings=findings,
            numbers={name: one for name, one in self.numbers.items() if name not in made},
            causes={name: one for name, one in self.causes.items() if name not in made},
            counts={name: one for name, one in self.counts.items() if name not in made},
        )


def compare(profile: Profile, window: Window, rule: SkewRule, derived: Collection[str] = ()) -> Comparison:
    """Compares the inputs of `profile` with the rows of a window, which must have some; `derived` are columns that were
    made for the comparison, by which no rows are told."""
    known = [name for name in (profile.label, profile.event_time) if name]
    inputs = [one for one in profile.inputs if one.name not in window.unlogged]
    window = _with_empty_columns(window, inputs)
    schema = compare_schema(inputs, window.types, window.columns, known, [*profile.measures])
    read = _read(profile, window, schema.comparable)
    counts = count_rows(window.connection, window.relation, window.block, schema.comparable, window.columns, read)
    samples = {one.name: read.sample(window.columns.get(one.name, one.name)) for one in schema.comparable}
    growths = growths_of(profile)
    numbers = _measured(profile, schema.comparable, counts, samples, likeness_of(profile, growths), rule)
    grown = _grown(profile, growths, numbers, samples, rule)
    judgements: dict[str, list[Judgement]] = {name: [] for name in numbers}
    for judgement in judge(list(numbers.values()), rule, grown):
        judgements[judgement.feature].append(judgement)
    inquiry = Inquiry(profile, window, read, counts, samples, numbers, judgements, rule, derived)
    causes = {
        one.name: cause
        for one in schema.comparable
        if one.name not in grown and (cause := inquiry.cause(one)) is not None
    }
    causes |= inquiry.swapped(causes)
    causes |= {name: one.cause for name, one in grown.items() if one.cause is not None}
    findings: dict[str, list[Finding]] = {}
    for name, figures in numbers.items():
        begun = onset(profile.features[name], profile.counts[name], counts[name])
        if begun is not None:
            later = inquiry.since(profile.features[name], causes.pop(name, None), begun, grows=name in grown)
            causes |= {name: later} if later is not None else {}
        if name in causes and profile.features[name].family is Family.TIME:
            causes[name] = causes[name].dated()
        since = None if begun is None else date_of(begun)
        growth = grown[name].finding if name in grown else None
        found = findings_of(figures, judgements[name], None if growth else causes.get(name), rule, since, growth)
        found = [said_where(one, window, inquiry.few_valued) for one in found]
        unseen, beside = figures.unseen.share if figures.unseen is not None else 0.0, inquiry.few_valued
        findings[name] = [new_where_decided(one, profile.features[name], unseen, window, beside) for one in found]
    for feature in schema.comparable:
        found = findings[feature.name]
        if may_have_vanished(found):
            alpha = rule.alpha / len(schema.comparable)
            gone = vanished(feature, profile.counts[feature.name], counts[feature.name], alpha)
            if gone is not None:
                causes[feature.name], found = gone[0], finding_of(*gone, feature, found)
        before, now = profile.counts[feature.name], counts[feature.name]
        found = said_as_text(found, feature, before, now, samples[feature.name])
        found = told_of_odd_texts(found, feature, numbers[feature.name], samples[feature.name], profile.measures, rule)
        findings[feature.name] = list(_beside_tests(feature, profile, counts, samples, found, feature.name in grown))
    for finding in broken_groups(schema.comparable, profile, counts, rule):
        findings[finding.subject].insert(0, finding)
    _compare_columns(inquiry, findings, causes, grown, schema.vectors)
    twice = repeated_rows(profile, window, read, rule)
    of_rows = [*twice, *rows_missing(profile, window, read)]
    for finding in [*with_new_names(schema.findings, profile, window), *of_rows]:
        findings.setdefault(finding.subject, []).append(finding)
    _tell_reused(inquiry, findings, twice)
    unlogged = {one.name: window.unlogged[one.name] for one in profile.inputs if one.name in window.unlogged}
    return Comparison(window.rows, findings, numbers, causes, counts, unlogged)


def _compare_columns(
    inquiry: Inquiry,
    findings: dict[str, list[Finding]],
    causes: dict[str, Cause],
    grown: Collection[str],
    vectors: Sequence[str],
) -> None:
    """Adds to `findings` what columns say of each other, and what is told of texts and vectors; where that explains a
    column, its cause among `causes` goes."""
    profile, window, read, numbers, rule = inquiry.profile, inquiry.window, inquiry.read, inquiry.numbers, inquiry.rule
    _tell_shortened(inquiry, findings, causes)
    broken = {name for name, found in findings.items() if found[0].outcome is Outcome.FAIL}
    excused = broken | {*grown}
    loose = looser_columns(profile, window, read, numbers, excused, rule)
    written = [*_of_vectors_and_texts(inquiry, vectors, numbers.keys() - broken)]
    carried = {name: window.columns.get(name, name) for name in numbers if name not in {*grown, *inquiry.derived}}
    failing = excused | {one.subject for one in [*loose, *written] if one.outcome is Outcome.FAIL}
    suspects = {name: causes.get(name) for name in failing}
    copied = {one.subject: one for one in copied_columns(profile.agreements, read, carried, numbers, suspects, rule)}
    for finding in [one for one in copied.values() if one.cause is not None]:
        name = finding.subject
        causes.pop(name, None)  # Whatever else might explain its values, row by row they are another column's.
        findings[name] = findings_of(numbers[name], inquiry.judgements[name], None, rule, instead=finding)
    of_pairs = [*copied.values(), *(one for one in loose if one.subject not in copied)]
    for finding in [one for one in of_pairs if one not in findings.get(one.subject, [])]:
        findings.setdefault(finding.subject, []).insert(0, of_fewer_rows(finding, causes, profile.pairs))
    for finding in written:
        findings.setdefault(finding.subject, []).insert(0, finding)
    findings |= told_of_exchanged(findings, exchanged_rows(profile, read, carried, findings))


def _tell_shortened(inquiry: Inquiry, findings: dict[str, list[Finding]], causes: dict[str, Cause]) -> None:
    """Tells ids that were cut off as that, in place of what the values say that are left."""
    for name, measures in inquiry.profile.measures.items():
        sample = inquiry.samples.get(name)
        if CHARACTERS in measures.features or not isinstance(sample, TextSample):
            continue
        finding = shortened(inquiry.profile.features[name], sample)
        if finding is not None:
            causes.pop(name, None)
            judged = inquiry.judgements[name]
            findings[name] = findings_of(inquiry.numbers[name], judged, None, inquiry.rule, instead=finding)


def _tell_reused(inquiry: Inquiry, findings: dict[str, list[Finding]], twice: Sequence[Finding]) -> None:
    """Adds what is told of values that repeat, where nothing else is wrong with their column, nor rows come `twice`; of
    measured numbers, in place of what their single values say."""
    for name, sample in inquiry.samples.items() if not twice else ():
        feature = inquiry.profile.features[name]
        if name in inquiry.derived:
            continue
        if (few := coarsened(feature, sample, findings[name])) is not None:
            judged = inquiry.judgements[name]
            findings[name] = findings_of(inquiry.numbers[name], judged, None, inquiry.rule, instead=few)
        elif findings[name][0].outcome is not Outcome.FAIL and (again := reused(feature, sample)) is not None:
            findings[name].insert(0, again)


def _measured(
    profile: Profile,
    features: Sequence[FeatureProfile],
    counts: Mapping[str, FeatureCounts],
    samples: Mapping[str, ValueSample | TextSample],
    likeness: Likeness,
    rule: SkewRule,
) -> dict[str, FeatureNumbers]:
    return {
        feature.name: measure_feature(
            feature,
            profile.counts[feature.name],
            counts[feature.name],
            sample=samples[feature.name],
            digits=profile.counts.get(digits_name(feature.name)),
            point_margin=rule.point_margin,
            likeness=likeness,
            telling=rule.detectable,
        )
        for feature in features
    }


def _grown(
    profile: Profile,
    growths: Mapping[str, Growth],
    numbers: Mapping[str, FeatureNumbers],
    samples: Mapping[str, ValueSample | TextSample],
    rule: SkewRule,
) -> dict[str, Growing]:
    """What is to be said of features that grow with time instead of how their values are distributed."""
    told = {
        name: told_of_growth(
            growths[name],
            profile.features[name],
            samples[name],
            figures.distribution.by_day,
            rule.unseen_floor,
        )
        for name, figures in numbers.items()
        if name in growths
    }
    return {name: one for name, one in told.items() if one is not None}


def _beside_tests(
    feature: FeatureProfile,
    profile: Profile,
    counts: Mapping[str, FeatureCounts],
    samples: Mapping[str, ValueSample | TextSample],
    found: Sequence[Finding],
    grows: bool,
) -> Sequence[Finding]:
    """With what no test of the whole window sees: numbers that were narrowed, and single days unlike any of training,
    also in which values are missing."""
    narrow = narrowed(feature, samples[feature.name])
    if narrow is not None:
        return [narrow, *found]
    if grows or any(one.outcome in (Outcome.FAIL, Outcome.WARN) for one in found):
        return found
    before, now = profile.counts[feature.name], counts[feature.name]
    if (days := unlike_days(feature, before, now)) is not None:
        return [days, *found]
    if (days := days_of_missing_values(feature, before, now)) is not None:
        return [about_missing_values(days, before, now), *(one for one in found if one.check != Aspect.MISSING)]
    return found


def _of_vectors_and_texts(inquiry: Inquiry, vectors: Sequence[str], others: Collection[str]) -> Iterator[Finding]:
    """A finding about each column of vectors, and about those of free text among the `others` that are written
    otherwise. The measures of one column, corrected together, take one column's part of the false discoveries."""
    profile, window, samples = inquiry.profile, inquiry.window, inquiry.samples
    rule = replace(inquiry.rule, alpha=inquiry.rule.alpha / max(len(profile.inputs), 1))
    for name in vectors:
        measure = functools.partial(measured, known=profile.measures[name])
        yield finding_of_vectors(name, _of_measures(profile, window, name, measure, rule).findings)
    for name in profile.measures:
        if name in others:
            told = _of_texts(profile, window, name, samples[name], rule)
            yield from [told] if told is not None else ()


def _of_texts(
    profile: Profile, window: Window, name: str, sample: ValueSample | TextSample, rule: SkewRule
) -> Finding | None:
    """The finding about a column of free text, or of ids, texts or numbers, which are told by what they are made of and
    end with alone."""
    measures, known = profile.measures[name].features, profile.features[name]
    texts = isinstance(sample, TextSample)
    measure = functools.partial(measured_texts, names=measures, whole=not texts)
    found = _of_measures(profile, window, name, measure, rule)
    told = finding_of_texts(name, found.findings)
    if told is not None and CHARACTERS not in measures and isinstance(sample, TextSample) and count_on(known, sample):
        told = None
    if told is None and LAST_CHARACTER in measures:
        ends = profile.measures[name].counts[LAST_CHARACTER]
        by_day = profile.event_time is not None and window.moment is not None
        return ends_gone(known, measures[LAST_CHARACTER], ends, found.counts[LAST_CHARACTER], by_day=by_day)
    return told


def _of_measures(
    profile: Profile, window: Window, name: str, measure: Callable[..., Any], rule: SkewRule
) -> Comparison:
    """The measures of a column beside those of training."""
    table = measure(window.connection, window.relation, window.block, window.columns.get(name, name))
    with measured_window(window.connection, table) as measures:
        return compare(profile.measures[name], measures, rule)


def _read(profile: Profile, window: Window, features: Sequence[FeatureProfile]) -> Rows:
    """The window's columns that can be compared, and the time of the events."""
    columns = [window.columns.get(one.name, one.name) for one in features]
    moment = [window.moment] if window.moment is not None and profile.event_time is not None else []
    types = {column: window.types[column] for column in [*columns, *moment]}
    hashed = columns_that_tell_rows(profile, window)
    return read_rows(window.connection, window.relation, window.block, types, window.rows, hashed, window.some)


def _with_empty_columns(window: Window, inputs: Sequence[FeatureProfile]) -> Window:
    """The window, in which a column without a single value is read as what it was in training: all of it is missing,
    whatever type the table gives it."""
    numeric = {window.columns.get(one.name, one.name): one.family.numeric for one in inputs if one.bins is not None}
    other = [
        name
        for name, wanted in numeric.items()
        if name in window.types
        and (
            window.types[name] == _OF_NULLS
            or (family(window.types[name]) is not Family.OPAQUE and family(window.types[name]).numeric is not wanted)
        )
    ]
    if not other:
        return window
    counted = ", ".join(f"count({quote(name)})" for name in other)
    values = window.connection.execute(f"SELECT {counted} FROM {window.relation}").fetchall()[0]
    empty = {name: "DOUBLE" if numeric[name] else "VARCHAR" for name, n in zip(other, values, strict=True) if n == 0}
    return replace(window, types={**window.types, **empty})
