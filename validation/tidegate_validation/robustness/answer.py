"""What came of one call to a version under probe: outputs, a typed refusal, or the death of its process.

`sandbox` makes these, `judgement` and the quality gate read them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tidegate_serving.contract.tensors import Array


class AnswerKind(enum.Enum):
    """How a call ended."""

    OUTPUTS = "outputs"
    REFUSED = "refused"
    DIED = "died"
    HUNG = "hung"
    GARBLED = "garbled"
    NOT_LOADED = "not loaded"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `words` says how the process ended or why it refused; `log` is the end of what it wrote to stderr."""

    kind: AnswerKind
    outputs: Mapping[str, Array] = field(default_factory=dict)
    words: str = ""
    code: str = ""
    seconds: float = 0.0
    resident_bytes: int = 0
    log: str = ""

    @property
    def fatal(self) -> bool:
        """Whether the process is gone or useless after this."""
        return self.kind not in (AnswerKind.OUTPUTS, AnswerKind.REFUSED)

    def non_finite(self) -> str | None:
        """The name of an output that holds NaN or infinity, if one does."""
        for name, array in self.outputs.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return name
        return None
