"""The state of one examination: the version's session, a row that it answers, what was found, and when to stop.

Stages ask the version through it, so that deaths, time and failing inputs are counted in one place.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.tensors import Array
from tidegate_validation.golden_requests import GoldenRequests
from tidegate_validation.robustness.failing_inputs import FailingInput, FailingInputs, Way
from tidegate_validation.robustness.input_domain import InputDomain
from tidegate_validation.robustness.judgement import Unit, largest_difference, units_of
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples
from tidegate_validation.sandbox.session import Session

_LEAST_SECONDS = 0.05
_REPLAY_SECONDS = 0.5
_EXCUSED = 2
"""Deadlines that may be missed for a moment, as on a busy machine; a version that misses more hangs now and then."""


class OutOfTime(Exception):
    """The gate's own deadline has passed; `gate` turns it into a finding."""


@dataclass(slots=True)
class Examination:
    """What stages share. `good` is one row that the version answered with `expected`; `baseline` can be asked too.
    `early` are requests that it was asked before most others, with the first answer to each. `expected_by` and
    `early_by` are the processes that answered so: how many of the session's had ended by then.

    `real_rows` says that no row of real data has failed so far, `steady` that the same request was always answered
    alike, `changed` what the version did to its process, `addresses` which it called, `writes` which it tried
    outside its folders, `reads` which files it read there, `absent` which it would have read, by process,
    `environment` which variables it changed, `integers` which floats it gave as whole numbers, `pickled_by` which
    other version of a library made its pickle, `out_of_range` which outputs the policy's range does not hold,
    `units` how large its fractions are, `seconds` how long calls took, `single_seconds` those with one ordinary
    row, `excused` how many missed deadlines were kept when tried again.
    `other_sizes` are rows whose open axes have other sizes than those of most rows, which are `data`.
    `end` is the gate's deadline by the monotonic clock. `golden` are recorded requests to ask again, by one of the
    version's `signatures`; `report_folder` is where more may be told than a finding holds.
    """

    session: Session
    baseline: Session | None
    signature: Signature
    baseline_inputs: frozenset[str]
    limits: RobustnessLimits
    domains: Mapping[str, InputDomain]
    data: Examples
    failing_inputs: FailingInputs
    end: float
    other_sizes: Sequence[Examples] = ()
    golden: GoldenRequests | None = None
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    report_folder: Path | None = None
    findings: list[Finding] = field(default_factory=list)
    good: Examples | None = None
    expected: Mapping[str, Array] = field(default_factory=dict)
    expected_by: int = 0
    early: Sequence[tuple[Examples, Mapping[str, Array]]] = ()
    early_by: int = 0
    seconds: list[float] = field(default_factory=list)
    single_seconds: list[float] = field(default_factory=list)
    changed: dict[str, None] = field(default_factory=dict)
    addresses: dict[str, None] = field(default_factory=dict)
    writes: dict[str, None] = field(default_factory=dict)
    reads: dict[str, None] = field(default_factory=dict)
    absent: dict[int, tuple[str, ...]] = field(default_factory=dict)
    environment: dict[str, None] = field(default_factory=dict)
    integers: dict[str, None] = field(default_factory=dict)
    pickled_by: dict[str, None] = field(default_factory=dict)
    out_of_range: set[str] = field(default_factory=set)
    units: dict[str, Unit] = field(default_factory=dict)
    real_rows: bool = True
    steady: bool = True
    excused: int = 0
    stage: str = "load"

    def ask(self, examples: Examples) -> Answer:
        """The version's answer to whole examples; an answer with another number of rows counts as garbled."""
        answer = self.ask_raw(examples.arrays, len(examples))
        if len(examples) == 1 and answer.kind is AnswerKind.OUTPUTS:
            self.single_seconds.append(answer.seconds)
        self._hold_to_range(examples, answer, "the data")
        return answer

    def ask_by(self, signature: str, examples: Examples, source: str) -> Answer:
        """The answer by a signature that may be another than the one that is judged, to whose outputs alone the
        policy's ranges apply; `source` says in sentences where the rows are from."""

        def ask() -> Answer:
            return self.session.ask(examples.arrays, self.time_for(self.limits.call_seconds), signature)

        answer = self._checked(self._patiently(ask), len(examples))
        if signature == self.session.signature:
            self._hold_to_range(examples, answer, source)
        return answer

    def ask_raw(self, tensors: Mapping[str, Array], rows: int, most: float | None = None) -> Answer:
        """The version's answer to tensors as they are. A missed deadline of the limits is tried again once; `most` is
        another one, in seconds, which is not."""

        def ask() -> Answer:
            return self.session.ask(tensors, self.time_for(self.limits.call_seconds if most is None else most))

        return self._checked(self._loaded(ask) if most is not None else self._patiently(ask), rows)

    def ask_at_once(self, examples: Examples, calls: Sequence[tuple[int, int]], threads: int) -> Answer:
        """The version's answers to several calls made at once; see `ModelProcess.predict_at_once`."""

        def ask() -> Answer:
            seconds, within = self.limits.call_seconds, self.time_for(math.inf)
            return self.session.ask_at_once(examples.arrays, calls, threads, seconds, within)

        return self._noted(self._patiently(ask))

    def ask_baseline(self, tensors: Mapping[str, Array]) -> Answer | None:
        """The baseline's answer to the inputs that it knows; None without a baseline or where it lacks one."""
        if self.baseline is None or not self.baseline_inputs <= tensors.keys():
            return None
        if self.baseline.load(self.time_for(self.limits.load_seconds)).fatal:
            return None
        seconds = self.time_for(self.limits.call_seconds)
        return self.baseline.ask({name: tensors[name] for name in self.baseline_inputs}, seconds)

    def difference(self, one: Mapping[str, Array], other: Mapping[str, Array]) -> float:
        """The largest difference between two answers, measured by what it answers to the data."""
        return largest_difference(one, other, self.units)

    def expect(self, outputs: Mapping[str, Array]) -> None:
        """Takes what the present process answers to the good row for what it has to answer from now on."""
        self.expected, self.expected_by = outputs, self.session.ended

    def learn_units(self, outputs: Mapping[str, Array]) -> None:
        """Takes one more answer to rows of the data for what its fractions are like."""
        self.units = units_of(outputs, self.units)

    def time_for(self, seconds: float) -> float:
        """So many seconds, or what is left of the gate's. Raises OutOfTime where nothing is left."""
        left = self.end - time.monotonic()
        if left < _LEAST_SECONDS:
            raise OutOfTime(self.stage)
        return min(seconds, left)

    def replay_seconds(self, failed: Answer) -> float:
        """A deadline for trying a failing input again; where it hung, one far above what ordinary calls took."""
        if failed.kind is not AnswerKind.HUNG:
            return self.limits.call_seconds
        usual = max(self.seconds, default=self.limits.call_seconds)
        return min(self.limits.call_seconds, max(_REPLAY_SECONDS, 20.0 * usual))

    def report(self, check: str, subject: str, outcome: Outcome, sentence: str, **more: Any) -> None:
        """Adds a finding."""
        self.findings.append(Finding(check, subject, outcome, sentence, **more))

    def keep(self, check: str, subject: str, tensors: Mapping[str, Array], way: Way, **more: Any) -> dict[str, Any]:
        """Keeps a failing input, and says for a finding's example where it is and how to try it again."""
        return self.failing_inputs.keep(FailingInput(check, subject, way, tensors, units=self.units, **more))

    @property
    def exhausted(self) -> bool:
        """Whether the version took down as many processes as are tried."""
        return self.session.deaths >= self.limits.crashes

    def sample(self, rows: int, seed: int) -> Examples:
        """Rows of the data, the same ones every time."""
        if len(self.data) <= rows:
            return self.data
        chosen = np.sort(np.random.default_rng(seed).choice(len(self.data), rows, replace=False))
        return self.data.take(chosen)

    def answered_rows(self, count: int) -> Examples:
        """Rows to repeat: real ones, or only the good row where some real ones are known to fail."""
        if self.good is not None and not self.real_rows:
            return self.good
        return self.sample(count, seed=3)

    def _hold_to_range(self, examples: Examples, answer: Answer, source: str) -> None:
        """Reports the first row of each output whose answer the policy rules out."""
        if answer.kind is not AnswerKind.OUTPUTS or answer.non_finite() is not None:
            return
        for name, allowed in self.limits.output_range.items():
            outside = allowed.first_outside(answer.outputs[name]) if name in answer.outputs else None
            if outside is None or name in self.out_of_range:
                continue
            self.out_of_range.add(name)
            row = examples.take(np.array([outside[0]]))
            whose = f"row {row.rows[0]} of {source}" if row.rows[0] >= 0 else "the manifest's example"
            kept = self.keep("range", name, row.arrays, Way.ANSWER)
            sentence = f"for {whose} `{name}` {outside[1]}"
            self.report("range", name, Outcome.FAIL, sentence, example={"input": row.row(0), **kept})

    def _loaded(self, ask: Callable[[], Answer]) -> Answer:
        loaded = self.session.load(self.time_for(self.limits.load_seconds))
        return loaded if loaded.fatal else ask()

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        """The answer; after a missed deadline that of a fresh process, for the machine itself may have been busy."""
        answer = self._loaded(ask)
        left = self.end - time.monotonic()
        if answer.kind is not AnswerKind.HUNG or self.excused >= _EXCUSED or left < self.limits.call_seconds:
            return answer
        self.session.deaths -= 1
        again = self._loaded(ask)
        if not again.fatal:
            self.excused += 1
            sentence = f"in the stage {self.stage!r} a call {answer.words}, and was answered when asked again"
            self.report("deadline", f"miss {self.excused}", Outcome.WARN, sentence, limit=self.limits.call_seconds)
        return again

    def _checked(self, answer: Answer, rows: int) -> Answer:
        if answer.kind is AnswerKind.OUTPUTS:
            self.seconds.append(answer.seconds)
            wrong = [name for name, array in answer.outputs.items() if array.shape[:1] != (rows,)]
            if wrong:
                return Answer(AnswerKind.GARBLED, words=f"answered {rows} rows with another number in `{wrong[0]}`")
        return self._noted(answer)

    def _noted(self, answer: Answer) -> Answer:
        self.changed |= dict.fromkeys(answer.state.changed)
        self.addresses |= dict.fromkeys(answer.state.addresses)
        self.writes |= dict.fromkeys(answer.state.writes)
        self.reads |= dict.fromkeys(answer.state.reads)
        if answer.kind is AnswerKind.OUTPUTS:
            self.absent[self.session.ended] = answer.state.absent
        self.environment |= dict.fromkeys(answer.state.environment)
        self.integers |= dict.fromkeys(answer.state.integers)
        self.pickled_by |= dict.fromkeys(answer.state.pickled_by)
        if answer.kind is AnswerKind.HUNG and time.monotonic() >= self.end:
            raise OutOfTime(self.stage)
        return answer
