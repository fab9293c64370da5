"""Parses a command line as TensorFlow Serving's binary does: `--flag=value`, `--flag value`, `--flag` and `--noflag`.

Flags without effect are logged, one line each.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.tensorflow_serving.flag_table import FLAGS, Fate, Flag
from tidegate_serving.typed_config import nearest, read_scalar

_BY_NAME: Mapping[str, Flag] = {flag.name: flag for flag in FLAGS}
_log = logging.getLogger(__name__)


class Flags:
    """Values by name, given or default; `given` holds the names that the command line had."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values.get(name, _BY_NAME[name].default)

    @property
    def given(self) -> frozenset[str]:
        """Names on the command line."""
        return frozenset(self._values)


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Raises InvalidInput for an unknown flag, naming the nearest, or a value of the wrong kind, and Unsupported for a
    flag that would be dangerous to ignore.
    """
    values: dict[str, Any] = {}
    left = list(arguments)
    while left:
        flag, text = _take(left)
        value = text if isinstance(flag.default, str) else read_scalar(type(flag.default), text, f"--{flag.name}")
        values[flag.name] = value
        if flag.fate is Fate.REFUSED and value != flag.default:
            raise Unsupported(f"--{flag.name} is not supported: {flag.note}")
        if flag.fate is Fate.IDLE and value != flag.default:
            _log.warning("--%s has no effect: %s", flag.name, flag.note)
    return Flags(values)


def _take(left: list[str]) -> tuple[Flag, str]:
    """One flag and its text, taken off the front."""
    argument = left.pop(0)
    if not argument.startswith("-") or argument in ("-", "--"):
        raise InvalidInput(f"unknown argument: {argument}: flags look like --port=8500")
    name, equals, text = argument.lstrip("-").partition("=")
    flag = _BY_NAME.get(name)
    if flag is None:
        negated = _BY_NAME.get(name.removeprefix("no")) if name.startswith("no") else None
        if negated is None or not isinstance(negated.default, bool) or equals:
            near = nearest(name, _BY_NAME, cutoff=0.6)
            raise InvalidInput(f"unknown argument: {argument}: {f'did you mean --{near}?' if near else 'see --help'}")
        return negated, "false"
    if equals:
        return flag, text
    if isinstance(flag.default, bool):
        return flag, left.pop(0) if left and left[0].lower() in ("true", "false") else "true"
    if not left:
        raise InvalidInput(f"--{name} has no value: write --{name}=VALUE")
    return flag, left.pop(0)
