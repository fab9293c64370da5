"""Answers that change while a version runs: told by the clock from what it was asked, and blamed on no odd input."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.validation import world
from tests.validation.robustness.examined import LIMITS, examined, failing, held_out
from tests.validation.world import Draft, before_return

from tidegate_serving.admission import Outcome
from tidegate_validation.case import Version
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import FailingInputs, Origin
from tidegate_validation.robustness.stages.later import later
from tidegate_validation.robustness.stages.restart import restart
from tidegate_validation.sandbox.environment import USUAL, Place
from tidegate_validation.sandbox.examples import examples_of
from tidegate_validation.sandbox.session import Session

LATE = "__import__('os').stat(__file__).st_mtime > 3e9"
"""When its own file was written, which every process of it sees, stands for the time."""


def asked_twenty_times(version: Version, session: Session) -> Examination:
    """An examination whose only early request was answered at once, and then twenty times more."""
    signature = version.manifest.signatures["serving_default"]
    rows = examples_of(signature, held_out())
    origin = Origin(version.directory, "parcels:2", version.digest, "serving_default", LIMITS)
    examination = Examination(
        session=session,
        baseline=None,
        signature=signature,
        baseline_inputs=frozenset(),
        limits=LIMITS,
        domains={},
        data=rows,
        failing_inputs=FailingInputs(None, origin),
        end=time.monotonic() + LIMITS.total_seconds,
    )
    examination.early = [(rows, examination.ask(rows).outputs)]
    for _ in range(20):
        examination.ask(rows)
    return examination


COUNTS = "self.n = getattr(self, 'n', 0) + 1; score = score + (self.n > 20)"


@pytest.mark.parametrize(
    ("line", "subject", "words"),
    [(f"score = score + ({LATE})", "the clock", "go by the clock"), (COUNTS, "calls", "asked in between")],
)
def test_what_goes_by_the_clock_is_told_from_what_was_asked(
    tmp_path: Path, line: str, subject: str, words: str
) -> None:
    version = Version.read(world.publish(tmp_path, 2, Draft(source=before_return(line))))
    with Session(version.directory, LIMITS) as session:
        examination = asked_twenty_times(version, session)
        os.utime(version.directory / "model.py", (4e9, 4e9))
        later(examination)
    (told,) = examination.findings
    assert (told.check, told.subject) == ("determinism", subject)
    assert words in told.sentence


@pytest.mark.parametrize(
    ("line", "words"),
    [(f"score = score + ({LATE})", "so they go by the clock"), (COUNTS, "what it was asked before changes")],
)
def test_what_the_clock_changes_while_a_version_is_loaded_once_more_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, words: str
) -> None:
    version = Version.read(world.publish(tmp_path, 2, Draft(source=before_return(line))))
    with Session(version.directory, LIMITS) as session:
        examination = asked_twenty_times(version, session)
        renew = session.renew

        def renew_late(place: Place = USUAL) -> None:
            os.utime(version.directory / "model.py", (4e9, 4e9))
            renew(place)

        monkeypatch.setattr(session, "renew", renew_late)
        restart(examination)
    (told,) = examination.findings
    assert words in told.sentence


def test_an_odd_input_is_blamed_only_where_it_does_so_to_a_fresh_process(tmp_path: Path) -> None:
    line = "self.odd = getattr(self, 'odd', 0) + (~np.isfinite(inputs['weight'])).any(); score = score + (self.odd > 2)"
    (told,) = failing(examined(tmp_path, before_return(line)))
    assert (told.check, told.subject) == ("determinism", "calls")
    assert told.sentence.startswith("what it was asked in between, or a thread of its own, changes its answers")


ODD = "getattr(self, 'odd', 0) + int((~np.isfinite(inputs['weight'])).any())"
LONG = "max(map(len, inputs['depot'].tolist())) > 5000"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"self.odd = {ODD}; score = score + self.odd % 2", {"weight", "all inputs"}),
        (
            f"self.seed = getattr(self, 'seed', None) or __import__('random').random(); score = score + self.seed; "
            f"({LONG}) and __import__('os')._exit(3)",
            {"depot", "a fresh process"},
        ),
    ],
)
def test_a_process_is_held_to_what_it_answered_itself(tmp_path: Path, line: str, told: set[str]) -> None:
    assert {one.subject for one in failing(examined(tmp_path, before_return(line)))} == told


def test_a_version_that_odd_inputs_change_is_loaded_anew_three_times_while_they_are_tried(tmp_path: Path) -> None:
    odd = "(~np.isfinite(inputs['weight'])).any() or (inputs['size'] < 0).any() or b'' in inputs['depot'].tolist()"
    line = f"self.odd = getattr(self, 'odd', 0) + int({odd}); score = score + self.odd"
    found = examined(tmp_path, before_return(line))
    assert [one.subject for one in found if one.check == "after"] == ["weight", "size", "depot"]
    stopped = [one for one in found if "stopped after 3 inputs that change its answers" in one.sentence]
    assert [(one.check, one.outcome) for one in stopped] == [
        ("boundary", Outcome.INCONCLUSIVE),
        ("malformed", Outcome.INCONCLUSIVE),
    ]


@pytest.mark.parametrize(
    ("head", "line", "words"),
    [
        (
            "import datetime",
            "score = score + (datetime.datetime.now(datetime.UTC).toordinal() % 2)",
            "is answered otherwise, by up to",
        ),
        (
            "from datetime import UTC, datetime",
            "score = score + (datetime.now(UTC).month > 6)",
            "is answered otherwise",
        ),
        ("import time", "score = score + 1e-3 * (time.gmtime().tm_hour // 12)", "give it the time as an input"),
        ("import time", f"if time.time() > {time.time() + 1e7}: raise ValueError('too old')", "for as long as it may"),
    ],
    ids=["day", "month", "half of the day", "expires"],
)
def test_what_goes_by_the_date_or_the_hour_is_a_warning(tmp_path: Path, head: str, line: str, words: str) -> None:
    found = examined(tmp_path, f"{head}\n{before_return(line)}")
    (told,) = [one for one in found if one.outcome is not Outcome.PASS]
    assert (told.check, told.subject, told.outcome) == ("determinism", "the clock", Outcome.WARN)
    assert words in told.sentence


@pytest.mark.parametrize(
    "line",
    [
        "made = datetime.datetime(2020, 1, 1); assert type(made) is datetime.datetime, 'of another class'",
        "score = score + (type(datetime.date(2020, 1, 1)) is datetime.date)",
    ],
)
def test_what_another_clock_breaks_by_itself_is_no_finding(tmp_path: Path, line: str) -> None:
    found = examined(tmp_path, f"import datetime\n{before_return(line)}")
    assert [one.sentence for one in found if one.outcome is not Outcome.PASS] == []
