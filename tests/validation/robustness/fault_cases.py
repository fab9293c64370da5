"""What a model of the robustness tests is made of: the honest model with one more line, and the verdict it deserves.

`faults` and `controls` draw cases; a draw decides what triggers a fault, how the process dies, and how large it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from tests.validation import world
from tests.validation.world import before_return

from tidegate_serving.admission import Outcome

MAX_BATCH = 256
KNOWN = '{b"north", b"east", b"south", b"west"}'


@dataclass(frozen=True)
class Case:
    """A model's source; `checks` are those that may name the fault first, `words` what one of them must say."""

    source: str
    outcome: Outcome
    checks: tuple[str, ...] = ()
    words: str = ""
    limits: Mapping[str, Any] = field(default_factory=dict)
    missing: bool = False

    def held_out(self) -> pa.Table:
        """Parcels; with `missing`, some of them without a weight."""
        table = world.parcels(500, seed=42)
        if not self.missing:
            return table
        weights = table["weight"].to_numpy().copy()
        weights[::40] = np.nan
        return world.with_column(table, "weight", weights)


Draw = Callable[[Random], Case]


def fault(line: str, *checks: str, words: str = "", missing: bool = False, **limits: Any) -> Case:
    """The honest model with one line that must be refused."""
    return Case(before_return(line), Outcome.FAIL, checks, words, limits, missing)


def control(line: str, *, warns: str = "", **limits: Any) -> Case:
    """The honest model with one line that does no harm; `warns` says what it must be warned of, if anything."""
    return Case(before_return(line), Outcome.WARN if warns else Outcome.PASS, words=warns, limits=limits)


def death(random: Random) -> tuple[str, str]:
    """Code that ends the process, and how that is worded."""
    return random.choice(
        [
            ("__import__('os')._exit(0)", "exit status 0"),
            (f"__import__('os')._exit({(code := random.randrange(1, 256))})", f"exit status {code}"),
            ("__import__('os').abort()", "SIGABRT"),
            ("__import__('ctypes').string_at(0)", "SIGSEGV"),
            ("__import__('os').kill(__import__('os').getpid(), 9)", "SIGKILL"),
        ]
    )


def accident(random: Random) -> tuple[str, str]:
    """Code that raises what nobody raises to refuse an input."""
    return random.choice(
        [
            ("{}['nothing']", "KeyError"),
            ("[][0]", "IndexError"),
            ("1 // 0", "ZeroDivisionError"),
            ("int(float('inf'))", "OverflowError"),
            ("None.shape", "AttributeError"),
            ("(_ for _ in ()).throw(RuntimeError('boom'))", "RuntimeError"),
        ]
    )


def crash(random: Random) -> tuple[str, str]:
    """Either."""
    return (death if random.random() < 0.6 else accident)(random)


def refusal(random: Random) -> str:
    """Code that refuses an input in so many words."""
    kind = random.choice(["ValueError", "TypeError", "type('BadParcel', (Exception,), {})"])
    return f"(_ for _ in ()).throw({kind}('this input cannot be used'))"


def edge(random: Random) -> tuple[str, bool]:
    """A condition that holds for an input at an edge, and whether held-out data must lack weights for it."""
    return random.choice(
        [
            ("(inputs['size'] == 0).any()", False),
            ("(inputs['weight'] < 0).any()", False),
            (f"(inputs['size'] > {float(world.SIZES.max()) * random.uniform(1.0, 5.0):.3f}).any()", False),
            ("np.isnan(inputs['weight']).any()", True),
            (f"set(inputs['depot'].tolist()) - {KNOWN}", False),
        ]
    )
