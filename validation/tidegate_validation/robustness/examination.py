"""The state of one examination: the version's session, a row that it answers, what was found, and when to stop.

`gate` makes one and hands it from stage to stage; stages ask through it, so that deaths are counted in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.verdict import Finding, Outcome
from tidegate_validation.robustness.answer import Answer, AnswerKind
from tidegate_validation.robustness.examples import Examples
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.session import Session
from tidegate_validation.robustness.world import InputFacts


@dataclass(slots=True)
class Examination:
    """What stages share. `good` is one row that the version answered with `expected`; `baseline` can be asked too.

    `real_rows` says that no row of real data has failed so far.
    """

    session: Session
    baseline: Session | None
    signature: Signature
    baseline_inputs: frozenset[str]
    limits: RobustnessLimits
    facts: Mapping[str, InputFacts]
    data: Examples
    findings: list[Finding] = field(default_factory=list)
    good: Examples | None = None
    expected: Mapping[str, Array] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    real_rows: bool = True

    def ask(self, examples: Examples) -> Answer:
        """The version's answer to whole examples; an answer with another number of rows counts as garbled."""
        return self.ask_raw(examples.arrays, len(examples))

    def ask_raw(self, tensors: Mapping[str, Array], rows: int) -> Answer:
        """The version's answer to tensors as they are."""
        answer = self.session.ask(tensors)
        if answer.kind is AnswerKind.OUTPUTS:
            self.seconds.append(answer.seconds)
            wrong = [name for name, array in answer.outputs.items() if array.shape[:1] != (rows,)]
            if wrong:
                return Answer(AnswerKind.GARBLED, words=f"answered {rows} rows with another number in `{wrong[0]}`")
        return answer

    def ask_baseline(self, tensors: Mapping[str, Array]) -> Answer | None:
        """The baseline's answer to the inputs that it knows; None without a baseline or where it lacks one."""
        if self.baseline is None or not self.baseline_inputs <= tensors.keys():
            return None
        return self.baseline.ask({name: tensors[name] for name in self.baseline_inputs})

    def report(self, check: str, subject: str, outcome: Outcome, sentence: str, **more: Any) -> None:
        """Adds a finding."""
        self.findings.append(Finding(check, subject, outcome, sentence, **more))

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
