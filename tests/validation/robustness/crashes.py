"""Models that crash, or answer no number, now and then or for odd inputs; others that misbehave are in `faults`."""

from __future__ import annotations

from random import Random

from tests.validation.robustness.fault_cases import (
    MAX_BATCH,
    Case,
    Draw,
    accident,
    crash,
    death,
    edge,
    fault,
    refusal,
)
from tests.validation.world import HONEST

from tidegate_serving.admission import Outcome


def nan_on_edge(random: Random) -> Case:
    condition, missing = edge(random)
    value = random.choice(["np.nan", "np.inf", "-np.inf"])
    answer = f"return {{'probability': np.full(len(score), {value}, np.float32)}}"
    return fault(f"if {condition}: {answer}", "boundary", "data", "golden", words="NaN or infinity", missing=missing)


def crash_on_edge(random: Random) -> Case:
    condition, missing = edge(random)
    code, words = crash(random)
    return fault(f"if {condition}: {code}", "boundary", "data", "golden", words=words, missing=missing)


def crash_on_empty_batch(random: Random) -> Case:
    code, words = crash(random)
    return fault(f"if len(score) == 0: {code}", "batch", words=words)


def crash_on_huge_batch(random: Random) -> Case:
    code, words = crash(random)
    return fault(f"if len(score) > {random.randint(60, MAX_BATCH)}: {code}", "batch", "data", words=words)


def crash_on_unicode(random: Random) -> Case:
    code, words = death(random)
    how = random.choice(
        ["any(c > 127 for d in inputs['depot'] for c in d)", "any(b'\\xff' in d for d in inputs['depot'])"]
    )
    return fault(f"if {how}: {code}", "boundary", words=words)


def crash_where_it_took_long(random: Random) -> Case:
    how, words = death(random)
    first = "(setattr(self, 'long', 1), __import__('time').sleep(0.7))"
    line = f"any(len(one) > 9999 for one in inputs['depot']) and ({how} if hasattr(self, 'long') else {first})"
    return fault(line, "boundary", words=words)


def crash_on_infinity(random: Random) -> Case:
    code, words = crash(random)
    column = random.choice(["weight", "size"])
    return fault(f"if np.isinf(inputs['{column}']).any(): {code}", "boundary", words=words)


def crash_on_load(random: Random) -> Case:
    code, words = random.choice(
        [
            death(random),
            accident(random),
            ("from . import no_such_module", "no_such_module"),
            ("open('weights.bin')", "weights.bin"),
        ]
    )
    if random.random() < 0.5:
        return Case(f"{code}\n{HONEST}", Outcome.FAIL, ("load",), words)
    made = HONEST.replace("    def predict", f"    def __init__(self):\n        {code}\n\n    def predict")
    return Case(made, Outcome.FAIL, ("load",), words)


def crash_now_and_then(random: Random) -> Case:
    share = random.choice([0.05, 0.1, 0.2, 0.4])
    code, words = random.choice([death(random), accident(random), (refusal(random), "cannot be used")])
    when = random.choice(
        [
            f"__import__('random').SystemRandom().random() < {share}",
            f"not (setattr(self, 'n', getattr(self, 'n', 0) + 1) or self.n % {round(1 / share)})",
        ]
    )
    return fault(f"if {when}: {code}", "stability", "golden", "data", "load", words=words)


def crash_on_equal_rows(random: Random) -> Case:
    code, words = crash(random)
    return fault(f"if len(score) > 1 and len(set(score.tolist())) == 1: {code}", "batch", words=words)


def crash_next_to_zero(random: Random) -> Case:
    code, words = crash(random)
    weight = "inputs['weight']"
    condition = random.choice(
        [f"(0 < np.abs({weight})) & (np.abs({weight}) < 1e-37)", f"np.signbit({weight}) & ({weight} == 0)"]
    )
    return fault(f"if ({condition}).any(): {code}", "boundary", words=words)


CRASHES: tuple[Draw, ...] = (
    nan_on_edge,
    crash_on_edge,
    crash_on_empty_batch,
    crash_on_huge_batch,
    crash_on_unicode,
    crash_where_it_took_long,
    crash_on_infinity,
    crash_on_load,
    crash_now_and_then,
    crash_on_equal_rows,
    crash_next_to_zero,
)
