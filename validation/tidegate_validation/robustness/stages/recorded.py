"""Golden requests: what was recorded is asked again, and must be answered alike within the policy's tolerances."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.signature import FirstAxis, Signature
from tidegate_serving.files import written_aside
from tidegate_validation.golden_requests import GoldenRequests
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.finding import came_back
from tidegate_validation.robustness.tolerance import Tolerance
from tidegate_validation.sandbox.answer import AnswerKind
from tidegate_validation.sandbox.examples import Examples, examples_of, plain

CHECK = "golden requests"
_FILE = "golden-requests.csv"
_SHOWN = 20
EVERY = "*"


@dataclass(frozen=True, slots=True)
class _Request:
    """A golden request: its rows from `start` to before `end`, and what is sent for them."""

    id: str
    start: int
    end: int
    examples: Examples


@dataclass(frozen=True, slots=True)
class _Changed:
    """One row that is answered otherwise than it was recorded; `answered` says what came instead."""

    request: str
    row: int
    recorded: Any
    answered: Any

    def shown(self) -> dict[str, Any]:
        """For a finding's example."""
        return {
            "request_id": self.request,
            "row": self.row,
            "recorded": plain(self.recorded),
            "answered": plain(self.answered),
        }


def recorded(examination: Examination) -> None:
    """Asks all golden requests again, one by one, and says for each output which are answered otherwise."""
    golden = examination.golden
    if golden is None:
        return
    signature = _signature(examination, golden)
    if signature is None:
        return
    known = [spec.name for spec in signature.outputs]
    for name in golden.outputs:
        if name not in known:
            sentence = f"golden requests were answered with `{name}`, this version has {', '.join(known)}"
            examination.report(CHECK, name, Outcome.FAIL, sentence)
    compared = [name for name in golden.outputs if name in known]
    requests = _to_ask(examination, golden, signature)
    changed: dict[str, list[_Changed]] = {name: [] for name in compared}
    asked = 0
    for name, one in _asked_again(examination, golden, requests, compared):
        if one is None:
            asked += 1
        else:
            changed[name].append(one)
    if not asked:
        return
    for name in compared:
        _judge(examination, golden, name, changed[name], asked)
    if examination.report_folder is not None and any(changed.values()):
        _write(examination.report_folder / _FILE, changed)


def _signature(examination: Examination, golden: GoldenRequests) -> Signature | None:
    """The one that answered when they were recorded; None, and told, where the version lacks it or an input of it."""
    found = examination.signatures.get(golden.signature)
    if found is None or found.first_axis is FirstAxis.FREE:
        has = f"has {', '.join(examination.signatures)}" if found is None else "takes no rows by it"
        sentence = (
            f"{golden.where} was answered by signature `{golden.signature}`, and this version {has}: record golden "
            "requests of a signature of rows that it has"
        )
        examination.report(CHECK, golden.signature, Outcome.INCONCLUSIVE, sentence)
        return None
    lacking = [name for name in found.input_names if name not in golden.inputs]
    if lacking:
        sentence = f"{golden.where} lacks input `{lacking[0]}` of this version: record golden requests that have it"
        examination.report(CHECK, lacking[0], Outcome.INCONCLUSIVE, sentence)
        return None
    return found


def _to_ask(examination: Examination, golden: GoldenRequests, signature: Signature) -> list[_Request]:
    """The requests that can be sent; those with a row that cannot are told."""
    sent, found, unsent = golden.sent(), list[_Request](), dict[str, str]()
    for request, start, end in golden.requests():
        try:
            found.append(_Request(request, start, end, _to_send(signature, sent.slice(start, end - start))))
        except InvalidInput as error:
            unsent[request] = error.message
    if unsent:
        first, why = next(iter(unsent.items()))
        sentence = (
            f"{len(unsent)} of {len(unsent) + len(found)} golden requests cannot be sent to this version "
            f"(request {first!r}: {why}): record golden requests of its signature"
        )
        examination.report(CHECK, "requests", Outcome.INCONCLUSIVE, sentence, number=float(len(unsent)))
    return found


def _to_send(signature: Signature, rows: Any) -> Examples:
    """All rows of a request. InvalidInput where a value is missing, or none of its input's dtype."""
    examples = examples_of(signature, rows)
    if len(examples) < len(rows):
        raise InvalidInput("a whole number is missing in it")
    return examples


def _asked_again(
    examination: Examination, golden: GoldenRequests, requests: list[_Request], outputs: list[str]
) -> Iterator[tuple[str, _Changed | None]]:
    """Each changed row by its output, and None after each request that was asked."""
    for request in requests:
        if examination.exhausted:
            return
        answer = examination.ask_by(golden.signature, request.examples, f"golden request {request.id!r}")
        for name in outputs:
            was = golden.answered(name).slice(request.start, request.end - request.start).to_pylist()
            if answer.kind is not AnswerKind.OUTPUTS or name not in answer.outputs:
                yield name, _Changed(request.id, 0, was[0], came_back(answer))
                continue
            now = [_plain_text(value) for value in answer.outputs[name].tolist()]
            kept = _tolerance(examination, name).kept(was, now)
            for row in np.flatnonzero(~kept).tolist():
                yield name, _Changed(request.id, row, was[row], now[row])
        yield "", None


def _judge(examination: Examination, golden: GoldenRequests, output: str, changed: list[_Changed], asked: int) -> None:
    tolerance = _tolerance(examination, output)
    requests = list(dict.fromkeys(one.request for one in changed))
    share = len(requests) / max(asked, 1)
    if not changed:
        words = f"`{output}` of {asked} golden requests of {golden.servable} is as recorded"
        examination.report(CHECK, output, Outcome.PASS, words, number=0.0, limit=tolerance.share)
        return
    first = changed[0]
    sentence = (
        f"`{output}` of {len(requests)} of {asked} golden requests is not what {golden.servable} answered: request "
        f"{first.request!r}, row {first.row}: {plain(first.answered)} instead of {plain(first.recorded)}"
    )
    failed = share > tolerance.share
    examination.report(
        CHECK,
        output,
        Outcome(examination.limits.golden_counts) if failed else Outcome.PASS,
        sentence if failed else f"{sentence}; {100 * tolerance.share:g} % may change",
        number=share,
        limit=tolerance.share,
        cause={"kind": "changed answers"} if failed else None,
        example={"changed": [one.shown() for one in changed[:_SHOWN]], "requests": requests[:_SHOWN]},
    )


def _tolerance(examination: Examination, output: str) -> Tolerance:
    named = examination.limits.golden
    return named.get(output) or named.get(EVERY) or Tolerance()


def _plain_text(value: Any) -> Any:
    """As the log writes it: texts instead of bytes."""
    if isinstance(value, list):
        return [_plain_text(item) for item in value]
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _write(path: Path, changed: dict[str, list[_Changed]]) -> None:
    """Every changed answer, for whoever wants all of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["output", "request_id", "row", "recorded", "answered"])
        for output, rows in changed.items():
            table.writerows([output, *one.shown().values()] for one in rows)
