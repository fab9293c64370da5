"""What came of one call to a model in the sandbox: outputs, a typed refusal, or the death of its process."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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


_TOLD = ("changed", "addresses", "writes", "reads", "absent", "environment", "integers", "pickled_by")


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The model's process after a call: how many files and threads it has, and children that ended unwaited for.

    `changed` says in words what the model did to the process that it would share with an engine: closed streams, signal
    handlers, the working directory. `addresses` it called so far, `writes` it tried outside its own folders, `reads` of
    files that another machine may lack, `absent` ones that it would have read, variables of the `environment` that it
    set or removed, outputs that it gave as `integers` where they are floats, versions of a library that its pickle was
    `pickled_by`, and that loads it.
    """

    open_files: int = 0
    threads: int = 0
    zombies: int = 0
    changed: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()
    pickled_by: tuple[str, ...] = ()

    @classmethod
    def from_head(cls, head: Mapping[str, Any]) -> ProcessState:
        """From an answer frame's `state`."""
        files, threads, zombies = (int(head.get(name, 0)) for name in ("open_files", "threads", "zombies"))
        told = (tuple(str(words) for words in head.get(name, ())) for name in _TOLD)
        return cls(files, threads, zombies, *told)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `words` says how the process ended or why it refused; `log` is the end of what it wrote to stderr.

    `raised` holds, for a refusal, the names of the classes of what the model raised, its own first; `left` the names of
    processes that stay after the version was unloaded and its own process ended; `lacks` says which package is to be
    installed here, where the model raised for want of one.
    """

    kind: AnswerKind
    outputs: Mapping[str, Array] = field(default_factory=dict)
    words: str = ""
    seconds: float = 0.0
    resident_bytes: int = 0
    log: str = ""
    raised: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    lacks: str = ""
    state: ProcessState = field(default_factory=ProcessState)

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
