"""How many rules of the protocols' small print an engine breaks; the tests ask the same."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.attack.siege import engine_with_models
from tests.bench.rows import Row
from tests.support.clients.small_print import RULES


def measure() -> Sequence[Row]:
    """A row for each rule that is broken, and their number."""
    with engine_with_models() as engine:
        found = {rule: rule.ask(engine.addresses) for rule in RULES}
    broken = {rule: word for rule, word in found.items() if word not in rule.wanted}
    rows = [
        Row(f"small-print: {rule.name} gives {word}", 1, "", " or ".join(sorted(rule.wanted)), False)
        for rule, word in broken.items()
    ]
    return [*rows, Row(f"small-print: rules broken of {len(RULES)}", len(broken), "", "0", not broken)]
