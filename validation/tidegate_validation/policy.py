"""The policy of the gates: which must run, what else may pass, and every gate's thresholds, read from a TOML file.

Operators load it once; gates get the part that is theirs, `decision` the rest. Unknown keys are refused by name.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.override_rule import OverrideRule, override_rules
from tidegate_serving.contract.verdict import Outcome
from tidegate_validation.expectations import ExpectationRule
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.skew.rule import SkewRule

GATES = ("expectations", "quality", "robustness", "skew")
_Section = TypeVar("_Section")


@dataclass(frozen=True, slots=True)
class Policy:
    """What the gates ask of a version.

    `run` lists the gates to run, `required` those without which nothing is admitted. `allow` names, per gate, further
    outcomes that do not deny, such as `{"quality": ("INCONCLUSIVE",)}`. `valid_days` is how long a verdict admits.
    `override` says who may override which gate's no; it counts where the engine's operator names this file.
    """

    run: tuple[str, ...] = GATES
    required: tuple[str, ...] = GATES
    allow: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)
    valid_days: int = 30
    override: tuple[OverrideRule, ...] = ()
    expectations: ExpectationRule = field(default_factory=ExpectationRule)
    quality: QualityRule = field(default_factory=QualityRule)
    robustness: RobustnessLimits = field(default_factory=RobustnessLimits)
    skew: SkewRule = field(default_factory=SkewRule)

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
        for name in ("run", "required"):
            if name in given:
                values[name] = _gates(given.pop(name), name, where)
        if "allow" in given:
            values["allow"] = _allow(given.pop("allow"), where)
        if "override" in given:
            values["override"] = override_rules(given.pop("override"), where)
            for rule in values["override"]:
                _gates(list(rule.gates), "override", where)
        if "valid_days" in given:
            values["valid_days"] = _typed(given.pop("valid_days"), int, "valid_days", where)
        if given:
            known = ", ".join(one.name for one in fields(cls))
            raise InvalidInput(f"policy key {next(iter(given))!r} in {where} is unknown: use one of {known}")
        return cls(**values)

    def digest(self) -> str:
        """SHA-256 in hex of everything in it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


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


def _gates(value: Any, key: str, where: str) -> tuple[str, ...]:
    names: tuple[str, ...] = _typed(value, tuple[str, ...], key, where)
    for name in names:
        if name not in GATES:
            raise InvalidInput(f"gate {name!r} in {key} of {where} is unknown: use {', '.join(GATES)}")
    return names


def _allow(value: Any, where: str) -> dict[str, tuple[Outcome, ...]]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"allow in {where} is {value!r}: it must be a table of gate names")
    found = {}
    for name in _gates(list(value), "allow", where):
        outcomes = _typed(value[name], tuple[str, ...], f"allow.{name}", where)
        try:
            found[name] = tuple(Outcome(outcome) for outcome in outcomes)
        except ValueError as error:
            raise InvalidInput(f"allow.{name} in {where}: {error}, use {', '.join(Outcome)}") from error
    return found
