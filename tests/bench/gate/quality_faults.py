"""Faults that belong to the quality gate, through the whole of `validate` with real probe processes, each with seeds.

Label leak, prediction collapse, and a worse slice under a better average: the right gate must refuse, naming the cause.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.bench.rows import Row
from tests.validation import world
from tests.validation.world import HONEST, Draft, before_return

from tidegate_serving.admission import Verdict
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.evidence import Evidence
from tidegate_validation.gates import run_gates
from tidegate_validation.policy import Policy
from tidegate_validation.quality.rule import QualityRule

RUNS = 20
_GATES = ("quality", "skew")
_POLICY = Policy(run=_GATES, required=_GATES)
_HELD_OUT_DAY = world.FIRST_DAY + 60


@dataclass(frozen=True)
class Case:
    """One fault: the candidate, what it trained on and is judged on, and check and subject that must be named."""

    candidate: Draft
    held_out: pa.Table
    check: str
    subject: str
    policy: Policy = _POLICY


def faults(runs: int = RUNS) -> list[Row]:
    """Every fault `runs` times with other seeds: how often the quality gate refuses and names what was planted."""
    found = []
    for name, make in (
        ("label leak", _leak),
        ("prediction collapse", _collapse),
        ("worse slice, better average", _slice),
    ):
        right = sum(_is_right(make(seed), seed) for seed in range(runs))
        words = f"{name}: right gate and cause, of {runs}"
        found.append(Row(words, right, "runs", f"all {runs}", right == runs))
    return found


def _is_right(case: Case, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        root = Path(folder)
        baseline = world.publish(root, 1, Draft(training=_training(seed + 100)))
        candidate = world.publish(root, 2, case.candidate)
        verdict = run_gates(candidate, Evidence(case.held_out, world.LABEL, baseline=baseline, policy=case.policy))
    return _names(verdict, case)


def _names(verdict: Verdict, case: Case) -> bool:
    """Whether the quality gate is the one that refuses, with the planted cause among its reasons."""
    quality = next(one for one in verdict.gates if one.gate == "quality")
    reasons = [(one.check, one.subject) for one in quality.findings if one.outcome == "FAIL"]
    return (
        not verdict.allowed
        and verdict.sentence.startswith(f"{verdict.id} is refused by the quality gate")
        and (case.check, case.subject) in reasons
    )


def _training(seed: int) -> pa.Table:
    return world.parcels(6000, seed=seed, days=60)


def _held_out(seed: int, rows: int = 4000) -> pa.Table:
    return world.parcels(rows, seed=1000 + seed, days=30, first_day=_HELD_OUT_DAY)


def _leak(seed: int) -> Case:
    """A new input that is the label with noise, sometimes under a monotone transformation."""
    random = np.random.default_rng(seed)
    noise = float(random.uniform(0.05, 0.4))
    shapes: tuple[Callable[[np.ndarray[tuple[int], np.dtype[np.float64]]], object], ...] = (
        lambda values: values,
        np.exp,
        lambda values: 1000 - 300 * values,
    )
    shape = shapes[seed % len(shapes)]

    def leaking(table: pa.Table) -> pa.Table:
        values = table[world.LABEL].to_numpy() + random.normal(0, noise, table.num_rows)
        return world.with_column(table, "checked", np.asarray(shape(values), dtype=np.float32))

    edge = float(np.asarray(shape(np.array([0.5])))[0])
    sign = -1 if seed % len(shapes) == 2 else 1
    scale = sign * 6.0 / abs(float(np.asarray(shape(np.array([1.0])) - np.asarray(shape(np.array([0.0])))).item()))
    source = HONEST.replace("score = 0.45", f'score = {scale} * (inputs["checked"] - {edge}) + 0.45')
    signature = Signature((*world.INPUTS, TensorSpec("checked", "float32")), world.OUTPUT)
    example = {"weight": 4.0, "size": float(world.SIZES[0]), "depot": "north", "checked": edge}
    draft = Draft(source, signature, training=leaking(_training(seed)), example=example)
    return Case(draft, leaking(_held_out(seed)), "too good", "checked")


def _collapse(seed: int) -> Case:
    """One answer for everything, or answers that differ by next to nothing."""
    random = np.random.default_rng(seed)
    line = f"score = score * {0.0 if seed % 2 else 0.001} + {random.uniform(-2, 2):.3f}"
    return Case(Draft(before_return(line), training=_training(seed)), _held_out(seed), "collapse", "predictions")


def _slice(seed: int) -> Case:
    """A candidate that knows more than the baseline everywhere but in one depot, where it knows nothing."""
    depot = ("north", "east", "south", "west")[seed % 4]
    random = np.random.default_rng(seed)

    def clued(table: pa.Table) -> pa.Table:
        values = table[world.LABEL].to_numpy() + random.normal(0, 0.6, table.num_rows)
        return world.with_column(table, "clue", values.astype(np.float32))

    better = f'score + np.where(inputs["depot"] == b"{depot}", 0, 2.5 * (inputs["clue"] - 0.5))'
    line = f'score = np.where(inputs["depot"] == b"{depot}", 0 * score, {better})'
    signature = Signature((*world.INPUTS, TensorSpec("clue", "float32")), world.OUTPUT)
    example = {"weight": 4.0, "size": float(world.SIZES[0]), "depot": "north", "clue": 0.5}
    draft = Draft(before_return(line), signature, training=clued(_training(seed)), example=example)
    policy = replace(_POLICY, quality=QualityRule(trusted=("clue",)))
    return Case(draft, clued(_held_out(seed, 8000)), "slice", f"depot={depot}", policy)
