"""The robustness gate against models that misbehave, each in a real probe process, and against honest ones."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.robustness import fault_run
from tests.validation.robustness.examined import LIMITS, examined, failing, held_out
from tests.validation.robustness.fault_cases import Case
from tests.validation.world import HONEST, Draft, before_return

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.outcomes import worst
from tidegate_validation.robustness.output_range import OutputRange
from tidegate_validation.robustness.stages import concurrency
from tidegate_validation.sandbox.answer import Answer
from tidegate_validation.sandbox.model_process import ModelProcess

STRANGER = 'if set(inputs["depot"].tolist()) - {b"north", b"east", b"south", b"west"}: '
NO_WEIGHT = 'if np.isnan(inputs["weight"]).any(): '


def test_an_honest_model_passes_every_stage(tmp_path: Path) -> None:
    found = examined(tmp_path, HONEST)
    assert worst([one.outcome for one in found]) is Outcome.PASS, [one.sentence for one in found]
    stages = {one.check for one in found}
    assert stages >= {"load", "golden", "data", "boundary", "malformed", "batch", "determinism", "memory", "sandbox"}


def test_nan_for_a_value_that_never_goes_missing_is_a_warning_only(tmp_path: Path) -> None:
    plain = HONEST.replace(
        'np.nan_to_num(inputs["weight"].astype(np.float64), nan=5.0, posinf=1e6, neginf=-1e6)', 'inputs["weight"]'
    )
    found = examined(tmp_path, plain)
    assert worst([one.outcome for one in found]) is Outcome.WARN
    assert {one.subject for one in found if one.outcome is Outcome.WARN} == {"weight"}


def test_inputs_that_pass_a_missing_number_on_are_named_in_one_warning(tmp_path: Path) -> None:
    line = "score = score + 0 * inputs['weight'] + 0 * inputs['size']"
    (told,) = (one for one in examined(tmp_path, before_return(line)) if one.outcome is not Outcome.PASS)
    words = "with any of `weight`, `size` missing (NaN) it answers NaN or infinity in `probability`"
    assert (told.outcome, told.sentence) == (Outcome.WARN, words)
    assert told.example is not None
    assert told.example["inputs"] == ["weight", "size"]


def test_refusing_what_cannot_happen_passes(tmp_path: Path) -> None:
    """As scikit-learn's models do with NaN; no weight was ever missing, in training or held-out data."""
    strict = before_return('if not np.isfinite(inputs["weight"]).all(): raise ValueError("Input X contains NaN.")')
    assert worst([one.outcome for one in examined(tmp_path, strict)]) is Outcome.PASS


def test_an_unseen_category_that_ends_the_process_fails_with_the_input(tmp_path: Path) -> None:
    found = failing(examined(tmp_path, before_return(STRANGER + "__import__('os')._exit(0)")))
    first = found[0]
    assert first.subject == "depot"
    assert first.sentence == 'with `depot="\u2603unseen"` its process ended with exit status 0 and gave no answer'
    assert first.example is not None
    assert first.example["changed"] == {"depot": "\u2603unseen"}
    assert set(first.example["input"]) == {"weight", "size", "depot"}
    assert {one.subject for one in found} <= {"depot", "all inputs"}


def test_no_input_is_blamed_for_answers_that_change_anyway(tmp_path: Path) -> None:
    line = "self.mean = 0.9 * getattr(self, 'mean', 0.0) + 0.1 * float(score.sum()); score = score + 0.01 * self.mean"
    found = failing(examined(tmp_path, before_return(line)))
    assert found[0].check == "determinism"
    assert "after" not in {one.check for one in found}


def test_inputs_of_a_column_that_fail_alike_are_one_finding_with_a_readable_error(tmp_path: Path) -> None:
    known = "{b'north': 0, b'east': 1, b'south': 2, b'west': 3}"
    line = f"score = score + 0 * np.array([{known}[one] for one in inputs['depot'].tolist()], dtype=float)"
    (found,) = failing(examined(tmp_path, before_return(line)))
    assert found.sentence == (
        "with `depot=\"\u2603unseen\"` its code fails (the model raised KeyError: b'\\xe2\\x98\\x83unseen'); the same "
        "with an empty text, letters of other scripts, a zero byte, a text of 10000 letters and bytes that are no UTF-8"
    )


def test_a_long_error_is_cut_in_the_middle_and_kept_whole_beside_it(tmp_path: Path) -> None:
    line = STRANGER + "raise KeyError('begin ' + 'x' * 1500 + ' end')"
    (found,) = failing(examined(tmp_path, before_return(line)))
    assert len(found.sentence) < 600
    assert re.search(r"KeyError: 'begin x+ … x+ end'\)", found.sentence)
    assert found.example is not None
    assert "x" * 1500 in str(found.example["error"])


def test_where_it_hung_is_in_the_log(tmp_path: Path) -> None:
    limits = replace(LIMITS, call_seconds=2)
    source = before_return(STRANGER + "__import__('threading').Event().wait()")
    found = failing(examined(tmp_path, source, limits=limits))
    assert found[0].sentence == 'with `depot="\u2603unseen"` it gave no answer within 2 s'
    assert found[0].example is not None
    assert "model.py" in found[0].example["log"], "the faulthandler's dump names the line"


def test_a_missing_value_that_the_feed_sends_must_be_answered(tmp_path: Path) -> None:
    source = before_return(NO_WEIGHT + "score = score * np.nan")
    found = failing(examined(tmp_path, source, table=held_out(missing=True)))
    assert {one.subject for one in found} == {"weight"}
    boundary = next(one for one in found if one.check == "boundary")
    assert boundary.sentence == (
        "with `weight` missing (NaN) it answers NaN or infinity in `probability`, "
        "and missing values occur in the held-out data"
    )
    real = next(one for one in found if one.check == "data")
    assert real.example is not None
    assert real.example["changed"] == {"weight": "NaN"}


def test_refusing_an_unseen_category_fails_unless_the_baseline_does_too(tmp_path: Path) -> None:
    strict = before_return(STRANGER + 'raise ValueError("unknown depot")')
    alone = failing(examined(tmp_path / "alone", strict, baseline=HONEST))
    assert [one.subject for one in alone] == ["depot"]
    assert "it refuses to answer" in alone[0].sentence
    both = examined(tmp_path / "both", strict, baseline=strict)
    assert worst([one.outcome for one in both]) is Outcome.WARN


def test_a_fault_on_real_rows_is_narrowed_to_the_column(tmp_path: Path) -> None:
    table = held_out()
    rare = world.with_column(
        table, "depot", ["lost" if row == 333 else depot for row, depot in enumerate(table["depot"].to_pylist())]
    )
    found = failing(
        examined(
            tmp_path, before_return("if b'lost' in inputs['depot'].tolist(): __import__('os').abort()"), table=rare
        )
    )
    assert found[0].check == "data"
    assert found[0].subject == "depot"
    assert found[0].sentence == 'with `depot="lost"` from real data its process was ended by SIGABRT'


def test_the_limits_hold_where_the_model_runs(tmp_path: Path) -> None:
    """The model itself looks, and answers only if it is held back as it should be; secrets are kept from it."""
    look = (
        "import os, resource as r; score = score / float("
        "r.getrlimit(r.RLIMIT_DATA)[0] == 1024 << 20 and r.getrlimit(r.RLIMIT_CORE)[0] == 0 and "
        "r.getrlimit(r.RLIMIT_CPU)[0] == 77 and os.environ.get('TIDEGATE_SIGNING_KEY') is None)"
    )
    limits = replace(LIMITS, memory_mb=1024, cpu_seconds=77)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_SIGNING_KEY", "secret")
        found = examined(tmp_path, before_return(look), limits=limits)
    assert worst([one.outcome for one in found]) is Outcome.PASS, [one.sentence for one in found]


def test_more_memory_than_allowed_is_not_to_be_had(tmp_path: Path) -> None:
    limits = replace(LIMITS, memory_mb=4096)
    found = failing(examined(tmp_path, before_return(STRANGER + "np.empty(2 ** 30)"), limits=limits))
    assert [one.subject for one in found] == ["depot"]
    assert "its code fails (the model raised MemoryError" in found[0].sentence


ANSWERS_THE_WRONG_REQUEST = """
import sys
import numpy as np
from tidegate_serving.contract.probe_frames import Frame, read_frame, write_frame
write_frame(sys.stdout.buffer, Frame("loaded", "", {"seconds": 0.1, "resident_bytes": 1, "signatures": {}}))
while (request := read_frame(sys.stdin.buffer)) is not None:
    rows = len(request.tensors["weight"])
    head = {"seconds": 0.1, "resident_bytes": 1}
    answer = {"probability": np.full(rows, 0.5, dtype=np.float32)}
    write_frame(sys.stdout.buffer, Frame("outputs", "stale", head, answer))
"""


def test_an_answer_to_another_request_is_no_answer(tmp_path: Path) -> None:
    limits = replace(LIMITS, call_seconds=1, crashes=1)
    found = failing(examined(tmp_path, HONEST, probe=(sys.executable, "-c", ANSWERS_THE_WRONG_REQUEST), limits=limits))
    assert found[0].check == "golden"
    assert "gave no answer within 1 s" in found[0].sentence


def test_a_process_that_writes_rubbish_is_no_pass(tmp_path: Path) -> None:
    rubbish = "import sys; sys.stdout.buffer.write(b'\\x00\\x00\\x00\\x02ha'); sys.stdout.flush(); sys.stdin.read()"
    found = failing(examined(tmp_path, HONEST, probe=(sys.executable, "-c", rubbish)))
    assert [one.check for one in found] == ["load"]


SLEEP = "__import__('time').sleep"


def stopped_in(calls: set[int], patch: pytest.MonkeyPatch) -> None:
    """The machine has no time for the version during these calls: its process stands still until it is ended."""
    ask, made = ModelProcess.predict, itertools.count(1)

    def predict(self: ModelProcess, *arguments: Any) -> Answer:
        if next(made) in calls:
            os.kill(self.sandboxed._watch.main, signal.SIGSTOP)
        return ask(self, *arguments)

    patch.setattr(ModelProcess, "predict", predict)


def test_a_deadline_that_a_busy_machine_misses_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_in({9, 30}, monkeypatch)
    limits = replace(LIMITS, call_seconds=5)
    found = examined(tmp_path, before_return(f"{SLEEP}(0.05)"), limits=limits)
    told = [one for one in found if one.outcome is not Outcome.PASS]
    assert {(one.check, one.outcome) for one in told} == {("deadline", Outcome.WARN)}
    assert [one.sentence.partition(" a call ")[2] for one in told] == [
        "gave no answer within 5 s, and was answered when asked again"
    ] * 2


def test_a_version_that_misses_deadlines_again_and_again_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_in({9, 30, 60}, monkeypatch)
    found = examined(tmp_path, HONEST, limits=replace(LIMITS, call_seconds=2))
    assert "gave no answer within 2 s" in failing(found)[0].sentence


AT_ONCE = "if not __import__('threading').current_thread().name.startswith('tidegate'): "


def test_each_of_many_calls_at_once_has_its_own_deadline(tmp_path: Path) -> None:
    """Two rounds of eight calls take longer than one call may; each is well within what it may take."""
    limits = replace(LIMITS, call_seconds=6, threads=2)
    found = examined(tmp_path, before_return(AT_ONCE + "__import__('time').sleep(0.8)"), limits=limits)
    assert worst([one.outcome for one in found]) is Outcome.PASS, [one.sentence for one in found]


def test_calls_of_two_sizes_are_asked_at_once_of_a_version_too_slow_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "_SECONDS", 0.0)
    mixes = "self.kept = score; __import__('time').sleep(0.01); score = score * (len(self.kept) == len(score))"
    found = failing(examined(tmp_path, before_return(AT_ONCE + mixes), limits=replace(LIMITS, threads=2)))
    assert [one.check for one in found] == ["threads"]


def test_calls_at_once_that_come_to_a_halt_are_told_by_their_deadline(tmp_path: Path) -> None:
    limits = replace(LIMITS, call_seconds=1, threads=2)
    source = before_return(AT_ONCE + "__import__('threading').Event().wait()")
    found = [one for one in failing(examined(tmp_path, source, limits=limits)) if one.check == "threads"]
    assert [one.sentence.partition(",")[0] for one in found] == [
        "asked by 2 threads at once it gave no answer within 7 s"
    ]


IN_A_ROW = """self.row = len(score) == 1 and getattr(self, 'row', 0) + 1
        if self.row >= 8 and self.__dict__.setdefault('sleeps', 0) < {times}:
            self.sleeps += 1
            __import__('time').sleep({seconds})"""
"""Slow for some calls with one row, once there are more of them in a row than before calls are measured."""


def latency_of(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.check == "latency" and one.limit]


def test_a_slow_version_is_told_after_few_calls(tmp_path: Path) -> None:
    """Hundreds of calls of it would take longer than the whole gate may."""
    limits = replace(LIMITS, p99_ms=20.0, total_seconds=100)
    line = IN_A_ROW.format(times=16, seconds=0.5)
    found = examined(tmp_path, before_return(line), limits=limits)
    (told,) = failing(found)
    assert re.match(r"99 % of (8|12) calls with 1 row took [\d.,]+ m?s or less, the budget is 20 ms", told.sentence)
    assert "; measured twice: 99 % of " in told.sentence


def test_a_version_too_slow_to_be_measured_is_called_slow_all_the_same(tmp_path: Path) -> None:
    limits = replace(LIMITS, p99_ms=20.0, total_seconds=4)
    found = examined(tmp_path, before_return(f"{SLEEP}(0.4)"), limits=limits)
    assert {one.check: one.outcome for one in found if one.outcome is not Outcome.PASS} == {
        "time": Outcome.INCONCLUSIVE,
        "latency": Outcome.FAIL,
    }


def test_a_version_that_is_far_too_slow_is_refused_before_all_else_is_tried(tmp_path: Path) -> None:
    """All stages would ask it some hundred times, for minutes."""
    limits = replace(LIMITS, p99_ms=20.0, total_seconds=100)
    begun = time.monotonic()
    found = examined(tmp_path, before_return(f"{SLEEP}(0.4)"), limits=limits)
    assert time.monotonic() - begun < 30
    assert {one.check: one.outcome for one in found if one.outcome is not Outcome.PASS} == {
        "time": Outcome.INCONCLUSIVE,
        "latency": Outcome.FAIL,
    }
    (told,) = (one.sentence for one in found if one.check == "time")
    assert re.search(r"too slow: what would take 1\d\d s and more is untried", told)


def test_a_budget_that_is_missed_for_a_moment_is_measured_again(tmp_path: Path) -> None:
    """The machine is busy for the first calls that are measured, which here the model itself plays."""
    line = IN_A_ROW.format(times=5, seconds=0.8)
    limits = replace(LIMITS, p99_ms=200.0)
    (told,) = latency_of(examined(tmp_path, before_return(line), limits=limits))
    assert told.outcome is Outcome.WARN
    assert "missed at first (99 % of " in told.sentence
    assert told.sentence.endswith("kept when measured again")


@pytest.mark.parametrize(("held", "outcome"), [(300, Outcome.PASS), (10**6, Outcome.FAIL)], ids=["ends", "goes on"])
def test_memory_that_seems_to_leak_is_measured_again(tmp_path: Path, held: int, outcome: Outcome) -> None:
    line = f"self.kept = getattr(self, 'kept', []); len(self.kept) < {held} and self.kept.append(bytes(2**16))"
    found = examined(tmp_path, before_return(line))
    (told,) = (one for one in found if one.subject == "resident memory")
    assert told.outcome is outcome
    assert re.search(r"; measured twice, and it grew over \d+ calls at first$", told.sentence)


def test_a_leak_is_told_in_units_that_a_reader_can_follow(tmp_path: Path) -> None:
    line = "self.kept = getattr(self, 'kept', []); self.kept.append(b'x' * 3_000_000)"
    (told,) = (one for one in examined(tmp_path, before_return(line)) if one.subject == "resident memory")
    assert re.match(r"memory grows by [23]\.\d MiB with every call, over 160 calls", told.sentence), told.sentence


MANY_THREADS = """if not hasattr(self, 'started'):
            self.started = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(40)]
            [thread.start() for thread in self.started]"""
MANY_PROCESSES = """if not hasattr(self, 'started'):
            self.started = [subprocess.Popen(['sleep', '1000']) for _ in range(40)]"""


@pytest.mark.parametrize(
    ("line", "limits", "words"),
    [
        (MANY_THREADS, {"processes": 8}, ""),
        (MANY_THREADS, {"most_threads": 20}, "threads, of 20 that it may have|can't start new thread"),
        (MANY_PROCESSES, {"processes": 8}, "started [0-9]+ processes, of 8 that it may have"),
    ],
    ids=["threads", "too many threads", "too many processes"],
)
def test_threads_are_no_processes(tmp_path: Path, line: str, limits: dict[str, Any], words: str) -> None:
    source = "import subprocess, threading\n" + before_return(line)
    found = failing(examined(tmp_path, source, limits=replace(LIMITS, **limits)))
    assert bool(found) is bool(words)
    assert all(re.search(words, one.sentence) for one in found[:1]), found[0].sentence


QUIETLY = "\n        try: {}\n        except OSError: pass"


@pytest.mark.parametrize(
    ("call", "check", "words"),
    [
        (
            "__import__('socket').create_connection(('127.0.0.1', 8126), 1)",
            "network",
            "it called addresses of its own machine, where a server may have other services: 127.0.0.1:8126",
        ),
        (
            "__import__('subprocess').run(['bash', '-c', 'echo seen > /dev/udp/127.0.0.1/8125'])",
            "network",
            r"it called addresses of its own machine, .*: [1-9][0-9,]* packets? from native code or from a child",
        ),
        (
            "open('/etc/tidegate.conf', 'w')",
            "files",
            "it tried to write outside its working folder: /etc/tidegate.conf",
        ),
        ("__import__('os').mkdir('/opt/model')", "files", "it tried to write outside its working folder: /opt/model"),
    ],
    ids=["loopback", "loopback by a child", "file", "folder"],
)
def test_what_is_tried_and_refused_is_told(tmp_path: Path, call: str, check: str, words: str) -> None:
    found = examined(tmp_path, before_return(QUIETLY.format(call)))
    (told,) = (one for one in found if one.outcome is not Outcome.PASS)
    assert (told.outcome, told.check) == (Outcome.WARN, check)
    assert re.fullmatch(words, told.sentence)


@pytest.mark.parametrize(
    ("name", "allowed", "sentence"),
    [
        ("probability", OutputRange(minimum=0, maximum=1), ""),
        (
            "probability",
            OutputRange(maximum=0.5),
            r"for row [0-9]+ of the data `probability` is 0\.[0-9]+, above .* 0\.5",
        ),
        ("odds", OutputRange(maximum=1), "the policy's output_range names 'odds', the version has probability"),
    ],
    ids=["kept", "above", "unknown"],
)
def test_answers_keep_to_the_range_of_the_policy(
    tmp_path: Path, name: str, allowed: OutputRange, sentence: str
) -> None:
    found = examined(tmp_path, HONEST, limits=replace(LIMITS, output_range={name: allowed}))
    failed = failing(found)
    assert [one.check for one in failed] == (["range"] if sentence else [])
    assert all(re.fullmatch(sentence, one.sentence) for one in failed), failed[0].sentence
    assert bool(sentence) or any(one.check == "range" for one in found)


def test_the_gate_ends_in_time_and_says_what_it_did_not_try(tmp_path: Path) -> None:
    """Each call is well within its own deadline; together they take too long."""
    slow = Case(before_return("__import__('time').sleep(0.2)"), Outcome.INCONCLUSIVE, limits={"total_seconds": 4.0})
    run = fault_run.examined(tmp_path, slow)
    found = list(run.findings)
    assert run.seconds < 4 + 20, "all calls together would take minutes"
    assert worst([one.outcome for one in found]) is Outcome.INCONCLUSIVE
    (told,) = (one for one in found if one.check == "time")
    assert told.sentence.startswith("the gate's 4 s were over in the stage ")


def test_vectors_and_whole_numbers_are_probed_too(tmp_path: Path) -> None:
    signature = Signature(
        (TensorSpec("point", "float32", (-1, 3)), TensorSpec("count", "int64"), TensorSpec("flag", "bool", (-1, 1))),
        (TensorSpec("y", "float32", (-1, 1)),),
    )
    source = """
import numpy as np

class Model:
    def predict(self, inputs):
        count = np.clip(inputs["count"], -1000, 1000)
        point = np.nan_to_num(inputs["point"], posinf=0, neginf=0).clip(-9, 9)
        value = point.sum(axis=1) + count + inputs["flag"][:, 0]
        return {"y": value.astype(np.float32)[:, None]}
"""
    random = np.random.default_rng(0)
    table = pa.table(
        {
            "point": pa.array(random.normal(size=(300, 3)).tolist(), pa.list_(pa.float32())),
            "count": pa.array([None, *random.integers(0, 9, 299).tolist()], pa.int64()),
            "flag": random.random(300) < 0.5,
        }
    )
    draft = Draft(source=source, signature=signature, example={"point": [0.0, 0.0, 0.0], "count": 1, "flag": [True]})
    found = examined(tmp_path, source, table=table, draft=draft)
    assert worst([one.outcome for one in found]) is Outcome.PASS, [one.sentence for one in found]
    assert {one.subject for one in found if one.check == "boundary"} >= {"point", "count", "flag"}
