"""How texts are written, and those of a window that are written as none of training's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.points import heaviest
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample

_LISTED = 5000
_KNOWN = 8
_TIMES = 5.0
"""So many times the part of new texts that come in a form of their own by nature,"""
_ERRORS = 2.0
"""and so many standard errors more, are no chance."""
_SUFFIXES = (
    re.compile(r"(?P<before>.*?[0-9])([-+._]|[-+_][0-9]+)[A-Za-z][-+.A-Za-z0-9]*"),
    re.compile(r"(?P<before>.*[0-9]\.[0-9]+)([-.][0-9]{1,3}|([a-z]|rc|alpha|beta|dev|pre|post)[0-9]*)"),
)
"""What releases have behind their number, such as `-rc1`, `+3f2a1c`, or one more short number."""


@dataclass(frozen=True, slots=True)
class OddForms:
    """A `share` of the rows, more than the `limit`, holds new texts that are written as none of training's, such as
    `values`."""

    share: float
    limit: float
    values: tuple[str, ...]


def odd_forms(feature: FeatureProfile, sample: ValueSample | TextSample, floor: float) -> OddForms | None:
    """Which texts of a window those are, where they are more than the share `floor`, and than nature brings."""
    bins = feature.bins
    if not isinstance(bins, CategoryBins) or not bins.complete or not isinstance(sample, TextSample):
        return None
    known = {*bins.top, *bins.others}
    new = [(str(value), share) for value, share in heaviest(sample, 0.0, _LISTED) if value not in known]
    if not new or len(known) < _KNOWN:
        return None
    forms = Counter(form_of(name) for name in known)
    odd = [(value, share) for value, share in new if not _is_formed(value, forms)]
    alone = sum(number == 1 for number in forms.values()) / len(known)
    limit = max(floor, _TIMES * alone * sum(share for _, share in new))
    share = sum(one for _, one in odd)
    if share - _ERRORS * (limit * max(1 - limit, 0.0) / float(sample.n.sum())) ** 0.5 <= limit:
        return None
    return OddForms(share, limit, tuple(value for value, _ in odd))


def _is_formed(text: str, forms: Collection[str]) -> bool:
    """Whether a text is written as one of the `forms`, be it with a suffix behind."""
    found = (suffix.fullmatch(text) for suffix in _SUFFIXES)
    return form_of(text) in forms or any(one is not None and form_of(one["before"]) in forms for one in found)


def form_of(text: str) -> str:
    """How a text is written: what stands for each word, number or mixture of both, with what is between them."""
    return re.sub(r"[^\W_]+", lambda part: _form_of_part(part.group()), text)


def _form_of_part(part: str) -> str:
    kind = "0" if part.isdigit() else "a" if part.isalpha() else "x"
    return kind.upper() if part.isupper() else kind
