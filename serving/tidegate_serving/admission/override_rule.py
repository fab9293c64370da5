"""Who may override which gate's no, and for how long: the `[[override]]` tables of a policy file.

`tidegate_validation.policy` reads them as part of a policy, the engine from the policy file that its operator names; an
override that no rule permits counts nowhere.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.admission.key_ring import TrustedKey
from tidegate_serving.admission.verdict import Outcome, Verdict
from tidegate_serving.contract.errors import InvalidInput, NotFound

MISSING = "MISSING"
OUTCOMES = (Outcome.FAIL.value, Outcome.ERROR.value, Outcome.INCONCLUSIVE.value, MISSING)
_KEYS = ("keys", "gates", "outcomes", "most_hours")


@dataclass(frozen=True, slots=True)
class OverrideRule:
    """`keys` (names or ids) may override these `outcomes` of these `gates` for at most `most_hours` hours.

    The outcome MISSING is that of a required gate that did not run.
    """

    keys: tuple[str, ...]
    gates: tuple[str, ...]
    outcomes: tuple[str, ...] = (Outcome.INCONCLUSIVE.value,)
    most_hours: float = 24.0

    def concerns(self, key: TrustedKey, gate: str, outcome: str) -> bool:
        """Whether the rule speaks of this key, gate and outcome."""
        return (key.id in self.keys or key.name in self.keys) and gate in self.gates and outcome in self.outcomes


def denied_outcome(verdict: Verdict, gate: str) -> str:
    """How a gate that denies came out: its outcome, or MISSING."""
    result = verdict.gate(gate)
    return MISSING if result is None else result.outcome.value


def refusal(rules: Sequence[OverrideRule], key: TrustedKey, gate: str, outcome: str, hours: float) -> str | None:
    """Why no rule permits this override, or None where one does."""
    fitting = [rule for rule in rules if rule.concerns(key, gate, outcome)]
    if not fitting:
        return f"no [[override]] rule lets {key} override {outcome} of the {gate} gate"
    most = max(rule.most_hours for rule in fitting)
    if hours > most:
        return f"{key} may override {outcome} of the {gate} gate for at most {most:g} hours, not for {hours:.4g}"
    return None


def read_override_rules(path: Path) -> tuple[OverrideRule, ...]:
    """The rules in a policy file; what else it holds is not looked at. NotFound or InvalidInput naming the file."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"policy {path} is missing: check override_policy, or leave it out") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"policy {path} is not TOML ({error}): correct it") from error
    return override_rules(document.get("override", []), str(path))


def override_rules(tables: Any, where: str) -> tuple[OverrideRule, ...]:
    """The rules of parsed `[[override]]` tables. InvalidInput naming `where`, key and value."""
    if not isinstance(tables, list):
        raise InvalidInput(f"override in {where} is {tables!r}: write it as [[override]] tables")
    return tuple(_rule(table, f"[[override]] number {place} of {where}") for place, table in enumerate(tables, 1))


def _rule(table: Any, where: str) -> OverrideRule:
    if not isinstance(table, Mapping):
        raise InvalidInput(f"{where} is {table!r}: it must be a table of keys")
    unknown = [key for key in table if key not in _KEYS]
    if unknown:
        raise InvalidInput(f"key {unknown[0]!r} in {where} is unknown: use one of {', '.join(_KEYS)}")
    outcomes = _texts(table, "outcomes", where, (Outcome.INCONCLUSIVE.value,))
    wrong = [outcome for outcome in outcomes if outcome not in OUTCOMES]
    if wrong:
        raise InvalidInput(f"outcome {wrong[0]!r} in {where} is unknown: use {', '.join(OUTCOMES)}")
    hours = table.get("most_hours", 24.0)
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 < hours < float("inf"):
        raise InvalidInput(f"most_hours in {where} is {hours!r}: use a number of hours above 0")
    return OverrideRule(_texts(table, "keys", where), _texts(table, "gates", where), outcomes, float(hours))


def _texts(table: Mapping[str, Any], key: str, where: str, otherwise: tuple[str, ...] | None = None) -> tuple[str, ...]:
    value = table.get(key, otherwise)
    good = isinstance(value, list | tuple) and value and all(isinstance(item, str) and item for item in value)
    if not good or value is None:
        raise InvalidInput(f"{key} in {where} is {value!r}: it must be a list of at least one text")
    return tuple(value)
