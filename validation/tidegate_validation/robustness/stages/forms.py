"""Texts that a version reads, such as dates, numbers, JSON or e-mail addresses, and not as the names of categories.

It may refuse what is no such text. That it reads them shows in new ones, made from those of the data by another digit
(or letter, where they have none): it answers most of these, and a table of categories knows none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidegate_serving.contract.signature import TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.judgement import answered
from tidegate_validation.robustness.probes import NEW_TEXTS, Likelihood, Probe, filled
from tidegate_validation.sandbox.answer import Answer

_PLAIN = b"unseen"
"""Refused for its letters is what is answered in plain ones."""
_NEW, _FEWEST, _TRIES = 12, 4, 200
_SEED = 11
_DIGIT, _LETTER, _WORD = re.compile(rb"\d(?!\d)"), re.compile(rb"[A-Za-z]"), re.compile(rb"[A-Za-z]+")
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True)
class Form:
    """What becomes of new texts like those of the data: whether most are `read`, and one that is `refused`. `free` says
    that nearly every row has a text of its own."""

    read: bool
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
    others = list(_others(texts))
    if len(others) < _FEWEST:
        return None
    refused = [text for text in others if not answered(_ask(examination, probe, spec, text))]
    return Form(
        len(refused) < _MOSTLY * len(others), is_free(examination.data.arrays[probe.subject]), next(iter(refused), b"")
    )


def is_free(texts: Array) -> bool:
    """Whether most texts are of one row alone, as of notes and ids."""
    return len(set(texts.ravel().tolist())) > _MOSTLY * texts.size


def _ask(examination: Examination, probe: Probe, spec: TensorSpec, text: bytes) -> Answer:
    like = probe.tensors[spec.name]
    return examination.ask_raw({**probe.tensors, spec.name: filled(spec, like, text)}, 1)


def _others(texts: list[bytes]) -> Iterator[bytes]:
    """Texts that are not among these: in one of them the last digit of a number is another. Without digits a letter is,
    in a word that not all of them have. Where all such are among them, there is one digit more, or one letter."""
    random = np.random.default_rng(_SEED)
    known = set(texts)
    with_digits = sorted(text for text in known if _DIGIT.search(text))
    chosen = with_digits or sorted(known)
    common = (
        set[bytes]() if with_digits or not chosen else set.intersection(*(set(_WORD.findall(one)) for one in chosen))
    )
    made = 0
    for attempt in range(_TRIES if chosen else 0):
        text = chosen[int(random.integers(len(chosen)))]
        if with_digits:
            places = [found.start() for found in _DIGIT.finditer(text)]
        else:
            words = (found for found in _WORD.finditer(text) if found[0] not in common)
            places = [place for found in words for place in range(*found.span())]
        if not places:
            continue
        place = places[int(random.integers(len(places)))]
        kept = place + (attempt >= _TRIES // 2)
        other = text[:kept] + _another(text[place : place + 1], random) + text[place + 1 :]
        if other not in known:
            known.add(other)
            yield other
            made += 1
        if made == _NEW:
            return


def _another(sign: bytes, random: np.random.Generator) -> bytes:
    """Another digit than 0, or another letter of the same case."""
    first, count = (b"1", 9) if sign.isdigit() else (b"a" if sign.islower() else b"A", 26)
    return bytes([first[0] + int(random.integers(count))])
