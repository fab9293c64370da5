"""Texts that a version reads, such as dates, numbers, JSON or e-mail addresses, and not as the names of categories.

It may refuse what is no such text. That it reads them shows in new ones, made from those of the data by another digit
(or letter, where they have none), and by another letter of one of their many words: it answers most of these, and a
table of categories, or a closed vocabulary, knows none. New is what neither
training nor the data hold; where the training profile does not list the column's texts, it is not known what is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tidegate_serving.contract.signature import TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.judgement import answered
from tidegate_validation.robustness.probes import NEW_TEXTS, Likelihood, Probe, filled
from tidegate_validation.sandbox.answer import Answer
from tidegate_validation.statistics.bins import CategoryBins

_PLAIN = b"unseen"
"""Refused for its letters is what is answered in plain ones."""
_NEW, _FEWEST, _TRIES, _MOST_TRIES = 12, 4, 200, 100_000
_SEED = 11
_DIGIT, _LETTER, _WORD = re.compile(rb"\d(?!\d)"), re.compile(rb"[A-Za-z]"), re.compile(rb"[A-Za-z]+")
_TIME_OF_DAY = re.compile(rb"([01]\d|2[0-3])(:[0-5]\d){1,2}")
_TWO_NUMBERS = re.compile(rb"(\d{1,2})[-/.](\d{1,2})\.?")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MOSTLY, _NEARLY_ALL = 0.5, 0.98
_MANY_WORDS, _SHARED = 40, 0.05
"""So many words that are in no larger share of the texts are a language; months, weekdays and units are fewer."""


@dataclass(frozen=True, slots=True)
class Form:
    """What becomes of new texts like those of the data: whether most are `read`, and one that is `refused`. `sure` says
    that training did not hold them, `free` that nearly every row has a text of its own, also beside training."""

    read: bool
    sure: bool
    free: bool
    refused: bytes = b""

    @property
    def likelihood(self) -> Likelihood:
        """How likely a text is that has another form."""
        return Likelihood.RARE if self.read else Likelihood.EVERYDAY


def form_of(examination: Examination, probe: Probe) -> Form | None:
    """The form of the column that a probe gives a new text; None for other probes, and where there is none to see."""
    spec = next((one for one in examination.signature.inputs if one.name == probe.subject), None)
    if spec is None or probe.what not in NEW_TEXTS or answered(_ask(examination, probe, spec, _PLAIN)):
        return None
    texts = examination.data.arrays[probe.subject].ravel().tolist()
    trained = examination.domains[probe.subject].trained
    known = _Known(
        frozenset(texts).union(*(more.arrays[probe.subject].ravel().tolist() for more in examination.other_sizes)),
        trained,
        frozenset([*trained.top, *trained.others] if trained else ()),
    )
    sure = trained is not None or len(set(texts)) >= _NEARLY_ALL * len(texts)
    free = is_free(examination.data.arrays[probe.subject]) and known.holds_new
    others = list(_others(known))
    if len(others) < _FEWEST:
        return Form(True, sure, free) if known.all_are is not None else None
    words = list(_other_words(known))
    read, refused = True, b""
    for new in (others, words) if len(words) >= _FEWEST else (others,):
        wrong = [text for text in new if not answered(_ask(examination, probe, spec, text))]
        if len(wrong) >= _MOSTLY * len(new):
            read, refused = False, wrong[0]
    return Form(read, sure, free, refused)


@dataclass(frozen=True, slots=True)
class _Known:
    """Texts that a version may know: those of the data, and what is `listed` of those that it was `trained` with."""

    texts: frozenset[bytes]
    trained: CategoryBins | None
    listed: frozenset[str]

    @property
    def all_are(self) -> Callable[[bytes], bool] | None:
        """Whether a text is what all are: a time of day or a day of the year, of which there may be no new ones; None
        where they are neither."""
        texts = self.texts - {b""}
        kinds = (_is_time, _is_day_of_month, _is_month_and_day)
        return next((kind for kind in kinds if texts and all(map(kind, texts))), None)

    @property
    def holds_new(self) -> bool:
        """Whether the data hold texts that training did not, for all that is known."""
        return self.trained is None or not self.trained.complete or sum(map(self._untrained, self.texts)) >= _FEWEST

    def lacks(self, text: bytes) -> bool:
        """Whether neither training nor the data hold a text, for all that is known."""
        return text not in self.texts and self._untrained(text)

    def _untrained(self, text: bytes) -> bool:
        name = text.decode(errors="replace")
        return self.trained is None or (name not in self.listed and self.trained.tells(name))


def _is_time(text: bytes) -> bool:
    return _TIME_OF_DAY.fullmatch(text) is not None


def _is_month_and_day(text: bytes) -> bool:
    found = _TWO_NUMBERS.fullmatch(text)
    return found is not None and _is_day(int(found[1]), int(found[2]))


def _is_day_of_month(text: bytes) -> bool:
    found = _TWO_NUMBERS.fullmatch(text)
    return found is not None and _is_day(int(found[2]), int(found[1]))


def _is_day(month: int, day: int) -> bool:
    return 1 <= month <= len(_DAYS) and 1 <= day <= _DAYS[month - 1]


def is_free(texts: Array) -> bool:
    """Whether most texts are of one row alone, as of notes and ids."""
    return len(set(texts.ravel().tolist())) > _MOSTLY * texts.size


def _ask(examination: Examination, probe: Probe, spec: TensorSpec, text: bytes) -> Answer:
    like = probe.tensors[spec.name]
    return examination.ask_raw({**probe.tensors, spec.name: filled(spec, like, text)}, 1)


def _others(known: _Known) -> Iterator[bytes]:
    """Texts that are not among these: in one of them the last digit of a number is another. Without digits a letter is,
    in a word that not all of them have. Where all such are among them, there is one digit more, or one letter. Beside
    times of day and days of the year they are such, too."""
    random = np.random.default_rng(_SEED)
    with_digits = sorted(text for text in known.texts if _DIGIT.search(text))
    chosen = with_digits or sorted(known.texts)
    common = (
        set[bytes]() if with_digits or not chosen else set.intersection(*(set(_WORD.findall(one)) for one in chosen))
    )
    made, all_are = set[bytes](), known.all_are
    tries = min(_MOST_TRIES, _TRIES * (known.trained.every if known.trained and not known.trained.complete else 1))
    for attempt in range(tries if chosen else 0):
        text = chosen[int(random.integers(len(chosen)))]
        if with_digits:
            places = [found.start() for found in _DIGIT.finditer(text)]
        else:
            words = (found for found in _WORD.finditer(text) if found[0] not in common)
            places = [place for found in words for place in range(*found.span())]
        if not places:
            continue
        place = places[int(random.integers(len(places)))]
        kept = place + (attempt >= tries // 2)
        other = text[:kept] + _another(text[place : place + 1], random) + text[place + 1 :]
        if other not in made and known.lacks(other) and (all_are is None or all_are(other)):
            made.add(other)
            yield other
        if len(made) == _NEW:
            return


def _other_words(known: _Known) -> Iterator[bytes]:
    """Texts that are not among these: in one of their many words a letter is another of those that such words have, so
    that hexadecimal digits stay such. None without digits, where `_others` are of that kind."""
    texts = sorted(text for text in known.texts if _DIGIT.search(text))
    counts = Counter(word for text in texts for word in set(_WORD.findall(text)))
    rare = {word for word, count in counts.items() if count <= _SHARED * len(texts)}
    if len(rare) < _MANY_WORDS:
        return
    random, made = np.random.default_rng(_SEED), set[bytes]()
    letters = sorted(set(b"".join(rare)))
    for _ in range(_TRIES):
        text = texts[int(random.integers(len(texts)))]
        found = [one for one in _WORD.finditer(text) if one[0] in rare]
        if not found:
            continue
        start, end = found[int(random.integers(len(found)))].span()
        place = int(random.integers(start, end))
        alike = [one for one in letters if bytes([one]).islower() == text[place : place + 1].islower()]
        other = text[:place] + bytes([alike[int(random.integers(len(alike)))]]) + text[place + 1 :]
        if other[start:end] not in counts and other not in made and known.lacks(other):
            made.add(other)
            yield other
        if len(made) == _NEW:
            return


def _another(sign: bytes, random: np.random.Generator) -> bytes:
    """Another digit than 0, or another letter of the same case."""
    first, count = (b"1", 9) if sign.isdigit() else (b"a" if sign.islower() else b"A", 26)
    return bytes([first[0] + int(random.integers(count))])
