"""What a version is called and where in its life it stands: one frozen identity and one enum of public states.

Both travel unchanged through every folder, from the publisher to the inference log.
"""

from __future__ import annotations

import enum
import re
import time
from dataclasses import dataclass, field

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.words import cut

_LONGEST = 128
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_LONGEST - 1}}}\Z")
_NOT_FIRST = "._-"
_ODD = re.compile(r"[^A-Za-z0-9._-]")
_SHOWN = 200
MAX_VERSION = 2**63 - 1


@dataclass(frozen=True, order=True, slots=True)
class ServableId:
    """Name and version of a servable, after TensorFlow Serving's `ServableId`.

    Raises InvalidInput for a name that cannot be a folder and a URL segment, or a version outside 0 to 2^63 - 1.
    """

    name: str
    version: int

    def __post_init__(self) -> None:
        check_name(self.name)
        if not 0 <= self.version <= MAX_VERSION:
            raise InvalidInput(f"version {self.version} of {self.name!r} is out of range: use 0 to {MAX_VERSION}")

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"


def is_name(name: str) -> bool:
    """Whether it can be a servable's: a folder and a URL segment."""
    return _NAME.match(name) is not None


def check_name(name: str) -> str:
    """The name itself, or InvalidInput where it cannot be a folder and a URL segment."""
    if not is_name(name):
        raise InvalidInput(f"servable name {cut(name, _SHOWN)!r} cannot be used, {name_fault(name)}")
    return name


def name_fault(text: str) -> str:
    """What keeps a text that is no name from being one, and what a name may be made of."""
    odd = _ODD.search(text)
    if odd is not None:
        fault = f"it has {cut(odd.group())!r}"
    elif text.startswith(tuple(_NOT_FIRST)):
        fault = f"it begins with {text[0]!r}"
    else:
        fault = f"it has {len(text)} characters" if text else "it is empty"
    return f"{fault}: take letters, digits, '.', '_' and '-', a letter or digit first, at most {_LONGEST}"


def is_version(text: str) -> bool:
    """Whether a folder's name can be a version's number; zeros may lead."""
    return text.isascii() and text.isdigit() and int(text) <= MAX_VERSION


class State(enum.Enum):
    """Public states of a version; values are TensorFlow Serving's `ModelVersionStatus.State` numbers."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(frozen=True, slots=True)
class StateChange:
    """One version entered a state. `error_code` and `error_message` are empty when all is well.

    `at_us` is Unix time in microseconds.
    """

    id: ServableId
    state: State
    error_code: str = ""
    error_message: str = ""
    at_us: int = field(default_factory=lambda: time.time_ns() // 1000)
