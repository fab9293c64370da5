"""The policy of the gates: which must run, what else may pass, and every gate's thresholds, read from a TOML file.

Operators load it once; gates get the part that is theirs, `decision` the rest. Unknown keys are refused by name.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tidegate_serving.admission.override_rule import OverrideRule, override_rules
from tidegate_serving.admission.verdict import Outcome
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_validation.checks.installed import installed_checks
from tidegate_validation.checks.rule import CheckRule
from tidegate_validation.expectations import ExpectationRule
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.skew.rule import SkewRule

_Section = TypeVar("_Section")


@dataclass(frozen=True, slots=True)
class Policy:
    """What the gates ask of a version.

    `run` lists the gates to run, `required` those without which nothing is admitted. `allow` names, per gate, further
    outcomes that do not deny, such as `{"quality": ("INCONCLUSIVE",)}`. `valid_days` is how long a verdict admits.
    `override` says who may override which gate's no; it counts where the engine's operator names this file.
    Besides ours a gate may be a user's check, by the name under which an installed package offers it; `checks` says how
    these are run.
    """

    run: tuple[str, ...] = field(default_factory=lambda: GATES)
    required: tuple[str, ...] = field(default_factory=lambda: GATES)
    allow: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)
    valid_days: int = 30
    override: tuple[OverrideRule, ...] = ()
    expectations: ExpectationRule = field(default_factory=ExpectationRule)
    quality: QualityRule = field(default_factory=QualityRule)
    robustness: RobustnessLimits = field(default_factory=RobustnessLimits)
    skew: SkewRule = field(default_factory=SkewRule)
    checks: Mapping[str, CheckRule] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> Policy:
        """From a TOML file, or the defaults for None. Raises NotFound or InvalidInput naming file, key and value."""
        if path is None:
            return cls()
        try:
            document = tomllib.loads(path.read_text())
        except FileNotFoundError as error:
            raise NotFound(f"policy {path} is missing: check the path, or leave it out for the defaults") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"policy {path} is not TOML ({error}): correct it") from error
        return cls.from_dict(document, where=str(path))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, where: str) -> Policy:
        """From a parsed document; `where` names it in messages."""
        given = dict(document)
        values: dict[str, Any] = {}
        sections = {
            "expectations": ExpectationRule,
            "quality": QualityRule,
            "robustness": RobustnessLimits,
            "skew": SkewRule,
        }
        for name, kind in sections.items():
            if name in given:
                values[name] = _section(kind, given.pop(name), f"[{name}] of {where}")
        for name, read in _READERS.items():
            if name in given:
                values[name] = read(given.pop(name), name, where)
        if given:
            known = ", ".join(one.name for one in fields(cls))
            raise InvalidInput(f"policy key {next(iter(given))!r} in {where} is unknown: use one of {known}")
        return cls(**values)

    def digest(self) -> str:
        """SHA-256 in hex of everything in it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


GATES: tuple[str, ...] = tuple(one.name for one in fields(Policy) if is_dataclass(one.default_factory))
"""Our own gates: each has its thresholds as a field of the policy, and runs by that name."""


def _section(kind: type[_Section], data: Any, where: str) -> _Section:
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{where} is {data!r}: it must be a table of keys")
    hints = get_type_hints(kind)
    unknown = [key for key in data if key not in hints]
    if unknown:
        raise InvalidInput(f"policy key {unknown[0]!r} in {where} is unknown: use one of {', '.join(hints)}")
    return kind(**{key: _typed(value, hints[key], key, where) for key, value in data.items()})


def _typed(value: Any, kind: Any, key: str, where: str) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind in (int, bool, str) and type(value) is kind:
        return value
    if kind == tuple[str, ...] and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if kind == float | None and isinstance(value, int | float):
        return _typed(value, float, key, where)
    if kind == Mapping[str, str] and isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values()):
        return dict(value)
    if get_origin(kind) is tuple and is_dataclass(get_args(kind)[0]) and isinstance(value, list):
        return tuple(_section(get_args(kind)[0], item, f"[[{key}]] of {where}") for item in value)
    wanted = getattr(kind, "__name__", str(kind)) if kind != tuple[str, ...] else "a list of strings"
    raise InvalidInput(f"policy key {key!r} in {where} is {value!r}: it must be {wanted}")


def _overrides(value: Any, key: str, where: str) -> tuple[OverrideRule, ...]:
    rules = override_rules(value, where)
    for rule in rules:
        _gates(list(rule.gates), key, where)
    return rules


def _days(value: Any, key: str, where: str) -> int:
    days: int = _typed(value, int, key, where)
    return days


def _gates(value: Any, key: str, where: str) -> tuple[str, ...]:
    names: tuple[str, ...] = _typed(value, tuple[str, ...], key, where)
    foreign = [name for name in names if name not in GATES]
    if foreign:
        known = (*GATES, *sorted(installed_checks()))
        for name in foreign:
            if name not in known:
                raise InvalidInput(
                    f"gate {name!r} in {key} of {where} is unknown: use {', '.join(known)}, or install the package "
                    "that offers the check"
                )
    return names


def _checks(value: Any, key: str, where: str) -> dict[str, CheckRule]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"checks in {where} is {value!r}: it must be a table of checks")
    return {name: CheckRule.from_dict(name, value[name], where) for name in _gates(list(value), key, where)}


def _allow(value: Any, key: str, where: str) -> dict[str, tuple[Outcome, ...]]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"allow in {where} is {value!r}: it must be a table of gate names")
    found = {}
    for name in _gates(list(value), key, where):
        outcomes = _typed(value[name], tuple[str, ...], f"allow.{name}", where)
        try:
            found[name] = tuple(Outcome(outcome) for outcome in outcomes)
        except ValueError as error:
            raise InvalidInput(f"allow.{name} in {where}: {error}, use {', '.join(Outcome)}") from error
    return found


_READERS: Mapping[str, Callable[[Any, str, str], Any]] = {
    "run": _gates,
    "required": _gates,
    "allow": _allow,
    "override": _overrides,
    "checks": _checks,
    "valid_days": _days,
}
