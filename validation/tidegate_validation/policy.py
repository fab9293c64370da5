"""The policy of the gates: which must run, what else may pass, and every gate's thresholds, read from a TOML file.

Operators load it once; gates get the part that is theirs, `decision` the rest. Unknown keys are refused by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.admission import Outcome, OverrideRule
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.typed_config import read_config, read_toml
from tidegate_validation.checks.installed import installed_checks
from tidegate_validation.checks.rule import CheckRule
from tidegate_validation.expectations import ExpectationRule
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.skew.rule import SkewRule


@dataclass(frozen=True, slots=True)
class Policy:
    """What the gates ask of a version.

    `run` lists the gates to run, `required` those without which nothing is admitted. `allow` names, per gate, further
    outcomes that do not deny, such as `{"quality": ("INCONCLUSIVE",)}`. `valid_days` is how long a verdict admits.
    `override` says who may override which gate's no; it counts where the engine's operator names this file.
    Besides ours a gate may be a user's check, by the name under which an installed package offers it; `checks` says how
    these are run.
    """

    run: tuple[str, ...] = field(default_factory=lambda: GATE_NAMES)
    required: tuple[str, ...] = field(default_factory=lambda: GATE_NAMES)
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
        return cls() if path is None else cls.from_dict(read_toml(path, "policy"), where=str(path))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, where: str) -> Policy:
        """From a parsed document; `where` names it in messages."""
        policy = read_config(cls, document, where)
        named = {"run": policy.run, "required": policy.required, "allow": policy.allow, "checks": policy.checks}
        for key, gates in {**named, "override": [gate for rule in policy.override for gate in rule.gates]}.items():
            _check_gates(gates, f"{key} of {where}")
        return policy

    def digest(self) -> str:
        """SHA-256 in hex of everything in it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


GATE_NAMES: tuple[str, ...] = tuple(one.name for one in fields(Policy) if is_dataclass(one.default_factory))
"""Our own gates: each has its thresholds as a field of the policy, and runs by that name."""


def _check_gates(names: Iterable[str], where: str) -> None:
    foreign = [name for name in names if name not in GATE_NAMES]
    known = (*GATE_NAMES, *sorted(installed_checks())) if foreign else GATE_NAMES
    for name in foreign:
        if name not in known:
            raise InvalidInput(
                f"gate {name!r} in {where} is unknown: use {', '.join(known)}, or install the package that offers the "
                "check"
            )
