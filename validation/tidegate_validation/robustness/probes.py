"""Inputs that try a version at its edges: one column of a good row changed at a time, then malformed requests.

Each says how likely it is in serving, by which `judgement` judges the answer.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.input_domain import InputDomain
from tidegate_validation.sandbox.examples import Examples, plain

ALL_INPUTS = "all inputs"
UNSEEN = "\u2603unseen"
_UNSEEN_CATEGORY, _OTHER_SCRIPTS = "an unseen category", "letters of other scripts"
NEW_TEXTS = frozenset([_UNSEEN_CATEGORY, _OTHER_SCRIPTS])
"""What a column of categories or free texts brings any day, and one of dates or numbers does not."""
_LONG = 10_000


class Likelihood(enum.Enum):
    """How an input comes about: in everyday serving, seldom, hardly ever (no number, the ends of a type), or only by a
    broken client.
    """

    EVERYDAY = "everyday"
    RARE = "rare"
    EXTREME = "extreme"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Probe:
    """One request. `what` names it in words, `subject` the column, `changed` what differs from a good row."""

    what: str
    subject: str
    likelihood: Likelihood
    tensors: Mapping[str, Array]
    changed: Mapping[str, Any]


def boundary_probes(signature: Signature, good: Examples, domains: Mapping[str, InputDomain]) -> Iterator[Probe]:
    """Each column at its edges, one at a time, in a single row `good` that the version answers; then all at once."""
    missing: dict[str, Array] = {}
    unseen: dict[str, Array] = {}
    for spec in signature.inputs:
        for what, value, likelihood in _edges(spec, domains[spec.name]):
            values = filled(spec, good.arrays[spec.name], value)
            yield Probe(what, spec.name, likelihood, {**good.arrays, spec.name: values}, {spec.name: plain(value)})
        if spec.dtype.startswith("float"):
            missing[spec.name] = filled(spec, good.arrays[spec.name], float("nan"))
        elif spec.dtype == "string":
            unseen[spec.name] = filled(spec, good.arrays[spec.name], UNSEEN.encode())
    for what, changed in (
        ("every number missing", missing),
        ("every category unseen", unseen),
        ("every number missing and every category unseen", {**missing, **unseen}),
    ):
        if len(changed) > 1:
            shown = {name: plain(array.ravel()[0]) for name, array in changed.items()}
            yield Probe(what, ALL_INPUTS, Likelihood.EXTREME, {**good.arrays, **changed}, shown)


def malformed_probes(signature: Signature, good: Examples) -> Iterator[Probe]:
    """Requests that break the signature: inputs that are missing, unknown, misshapen, of unequal length, mistyped."""
    first = signature.inputs[0]
    values = good.arrays[first.name]
    rest = {name: array for name, array in good.arrays.items() if name != first.name}
    yield _malformed("an input left out", first.name, rest)
    yield _malformed("an unknown input", "tidegate_unknown", {**good.arrays, "tidegate_unknown": values})
    yield _malformed("an input with one axis more", first.name, {**good.arrays, first.name: values[..., None]})
    if rest:
        longer = np.concatenate([values, values])
        yield _malformed("inputs of unequal length", first.name, {**good.arrays, first.name: longer})
    for spec in signature.inputs:
        array = good.arrays[spec.name]
        if spec.dtype == "string":
            wrong = np.zeros(array.shape, dtype=np.float64)
        else:
            wrong = np.full(array.shape, b"text", dtype=object)
        words = "a number for a text" if spec.dtype == "string" else "a text for a number"
        yield _malformed(words, spec.name, {**good.arrays, spec.name: wrong})


def _malformed(what: str, subject: str, tensors: Mapping[str, Array]) -> Probe:
    return Probe(what, subject, Likelihood.MALFORMED, tensors, {subject: what})


def _edges(spec: TensorSpec, domain: InputDomain) -> list[tuple[str, Any, Likelihood]]:
    if spec.dtype == "string":
        return _text_edges(domain)
    if spec.dtype == "bool":
        return [("true", True, Likelihood.EVERYDAY), ("false", False, Likelihood.EVERYDAY)]
    kind = np.dtype(spec.dtype)
    missing = Likelihood.EVERYDAY if domain.missing_in else Likelihood.EXTREME
    found: list[tuple[str, Any, Likelihood]] = []
    if kind.kind == "f":
        lowest, highest = float(np.finfo(kind).min), float(np.finfo(kind).max)
        found += [
            ("missing", float("nan"), missing),
            ("infinity", float("inf"), Likelihood.EXTREME),
            ("minus infinity", float("-inf"), Likelihood.EXTREME),
            ("the smallest number of its type", float(np.finfo(kind).smallest_subnormal), Likelihood.EXTREME),
            ("minus zero", -0.0, Likelihood.RARE),
        ]
    else:
        lowest, highest = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    ends = [("the highest number of its type", highest), ("the lowest number of its type", lowest)]
    found += [(what, value, _likelihood(domain, value, Likelihood.EXTREME)) for what, value in ends]
    for what, value in _ordinary_edges(domain):
        if lowest <= value <= highest:
            likelihood = _likelihood(domain, value, Likelihood.RARE)
            found.append((what, value if kind.kind == "f" else int(value), likelihood))
    return found


def _ordinary_edges(domain: InputDomain) -> list[tuple[str, float]]:
    """Numbers that a feed may bring any day, though training never saw some of them."""
    edges = [("zero", 0.0), ("a negative number", -1.0)]
    if domain.minimum is not None and domain.maximum is not None:
        step = 0.1 * (domain.maximum - domain.minimum)
        edges += [
            ("the lowest number seen", domain.minimum),
            ("the highest number seen", domain.maximum),
            ("a number below all that were seen", domain.minimum - max(step, 1.0)),
            ("a number above all that were seen", domain.maximum + max(step, 1.0)),
            ("ten times the largest number seen", 10.0 * max(abs(domain.minimum), abs(domain.maximum), 1.0)),
        ]
    return edges


def _likelihood(domain: InputDomain, value: float, otherwise: Likelihood) -> Likelihood:
    return Likelihood.EVERYDAY if domain.holds(value) else otherwise


def _text_edges(domain: InputDomain) -> list[tuple[str, Any, Likelihood]]:
    empty = Likelihood.EVERYDAY if domain.missing_in else Likelihood.RARE
    return [
        (_UNSEEN_CATEGORY, UNSEEN.encode(), Likelihood.EVERYDAY),
        ("an empty text", b"", empty),
        (
            _OTHER_SCRIPTS,
            "\u65e5\u672c\u8a9e \u0645\u0637\u0627\u0631 \U0001f6eb".encode(),
            Likelihood.EVERYDAY,
        ),
        ("a zero byte", b"a\x00b", Likelihood.RARE),
        (f"a text of {_LONG} letters", b"x" * _LONG, Likelihood.RARE),
        ("bytes that are no UTF-8", b"\xff\xfe\x80", Likelihood.EXTREME),
    ]


def filled(spec: TensorSpec, like: Array, value: Any) -> Array:
    """An input of the shape of `like` that holds one value everywhere."""
    if spec.dtype == "string":
        values = np.empty(like.shape, dtype=object)
        values.fill(value)
        return values
    return np.full(like.shape, value, dtype=like.dtype)
