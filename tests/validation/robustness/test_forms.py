"""Columns of texts that a version reads, such as dates or e-mail addresses: it may refuse what is none, in so many
words. Of categories and of free texts it has to answer new ones."""

from __future__ import annotations

import datetime
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.robustness.examined import LIMITS
from tests.validation.world import Draft

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.case import Version
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import FailingInputs, Origin
from tidegate_validation.robustness.input_domain import input_domains
from tidegate_validation.robustness.stages.edges import boundaries
from tidegate_validation.sandbox.examples import examples_of
from tidegate_validation.sandbox.session import Session
from tidegate_validation.statistics import make_profile

SOURCE = r"""
import datetime, decimal, json, re, urllib.parse, uuid

import numpy as np

NAMES = set(NAMES)


def only(found):
    if not found:
        raise ValueError("is none")


READ = {
    "json": lambda text: json.loads(text)["amount"] or only(True),
    "number": float,
    "phone": lambda text: only(re.fullmatch(r"\+\d{2} \d{3} \d{5}", text)),
    "version": lambda text: [int(part) for part in text.split(".")],
    "ratio": lambda text: [int(part) for part in text.split(":")],
    "postcode": lambda text: only(re.fullmatch("[A-Z]{2}[0-9] [0-9][A-Z]{2}", text)),
    "account": lambda text: only(int(text[4:] + text[2:4]) % 97 == 1),
    "email": lambda text: only(re.fullmatch("[a-z]+@[a-z.]+", text)),
    "url": lambda text: only(urllib.parse.urlparse(text).netloc),
    "uuid": uuid.UUID,
    "duration": lambda text: only(re.fullmatch(r"PT\d+M", text)),
    "clock": datetime.time.fromisoformat,
    "birthday": lambda text: datetime.datetime.strptime("2024-" + text, "%Y-%m-%d"),
    "feast": lambda text: datetime.datetime.strptime(text + "2024", "%d.%m.%Y"),
    "some": lambda text: only(text in NAMES),
    "price": lambda text: decimal.Decimal(text.removeprefix("EUR ")),
    "day": datetime.date.fromisoformat,
    "stamp": lambda text: np.array([text]).astype("datetime64[s]"),
    "dated": lambda text: datetime.datetime.strptime(text, "%d %b %Y"),
    "order": lambda text: only(re.match("order [0-9]+ ", text) and text.split()[-1] in NAMES),
    "code": lambda text: only(text in NAMES),
    "user": lambda text: only(text in NAMES),
    "depot": lambda text: only(text in NAMES),
    "store": lambda text: only(text in NAMES),
    "shelf": lambda text: only(text in NAMES),
    "note": lambda text: text.encode("ascii"),
    "accident": lambda text: {}[text] if len(text) != 10 else text,
}


class Model:
    def predict(self, inputs):
        for name, texts in inputs.items():
            for text in texts.tolist():
                if text:
                    READ[name](text.decode(errors="replace"))
        return {"y": np.zeros(len(texts), np.float32)}
"""
ROWS = range(1, 301)
DAYS = [f"2026-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in ROWS]
READ = {
    "json": [f'{{"amount": {row}.5, "kind": "card"}}' for row in ROWS],
    "number": [f"{row / 7:.2f}" for row in ROWS],
    "phone": [f"+49 30{row % 10} {row * 331:05d}" for row in ROWS],
    "version": [f"{row % 3}.{row % 11}.{row % 7}" for row in ROWS],
    "ratio": [("16:9", "4:3", "21:9")[row % 3] for row in ROWS],
    "postcode": [f"AB{row % 10} {row % 7}CD" for row in ROWS],
    "email": [f"{'anne' if row % 2 else 'bob'}{'abcdefgh'[row % 8]}@mail.example" for row in ROWS],
    "url": [f"https://{'abcdefgh'[row % 8]}.example/shop" for row in ROWS],
    "uuid": [str(uuid.UUID(int=row * 3**70)) for row in ROWS],
    "duration": [f"PT{row % 90}M" for row in ROWS],
    "clock": [f"{row % 24:02d}:{row % 60:02d}" for row in ROWS],
    "birthday": [f"{1 + row % 12:02d}-{1 + row % 28:02d}" for row in ROWS],
    "feast": [f"{1 + row % 28}.{1 + row % 12}." for row in ROWS],
    "price": [f"EUR {row}.99" for row in ROWS],
    "day": DAYS,
    "dated": [f"{1 + row % 28} {['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun'][row % 6]} 2026" for row in ROWS],
    "stamp": [f"{day}T10:00:00" for day in DAYS],
}
CHECKED = {"account": [f"DE{98 - int(f'{row * 7919}00') % 97:02d}{row * 7919}" for row in ROWS]}
WORDS = [
    first + last
    for first in ("al", "bo", "ce", "du", "fi", "go", "hu")
    for last in ("rend", "sted", "tand", "vel", "xo", "za", "y")
]
NOTED = {"order": [f"order {row} was {WORDS[row % 49]}" for row in ROWS]}
NAMES = {
    "code": [f"p{row % 40:02d}" for row in ROWS],
    "user": [f"u{row % 100 * 97:05d}" for row in ROWS],
    "depot": [("north", "south", "isle")[row % 3] for row in ROWS],
    "note": [f"parcel {row} came {'late' if row % 2 else 'soon'}" for row in ROWS],
    "accident": DAYS,
    "some": [f"{1 + row % 6:02d}-{1 + row % 28:02d}" for row in ROWS],
    "store": [f"S{100 + 2 * row}" for row in ROWS],
}
UNKNOWN = {"shelf": [f"S{100 + row * row % 800}" for row in ROWS]}
MANY = [f"S{100 + row % 800}" for row in range(1600)]
CLOCK = [f"{row // 60:02d}:{row % 60:02d}" for row in range(1440)]
TRAINING = {name: (texts[:200] * 8)[:1600] for name, texts in (READ | CHECKED | NOTED | NAMES).items()}
YEAR = [datetime.date(2025, 1, 1) + datetime.timedelta(day % 365) for day in range(1600)]
TRAINING |= {"store": MANY, "clock": CLOCK + CLOCK[:160]}
TRAINING |= {"birthday": [f"{day:%m-%d}" for day in YEAR], "feast": [f"{day.day}.{day.month}." for day in YEAR]}
"""What the version was trained with: all codes of stores, all minutes of a day and all days of a year, and no profile
lists its shelves."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    """What the stage of boundaries finds of one version that reads all of these columns."""
    columns = READ | CHECKED | NOTED | NAMES | UNKNOWN
    signature = Signature(tuple(TensorSpec(name, "string") for name in columns), (TensorSpec("y", "float32"),))
    source = SOURCE.replace(
        "set(NAMES)", repr({*NAMES["code"], *NAMES["user"], *NAMES["depot"], *NAMES["some"], *MANY, *WORDS})
    )
    example = {name: texts[0] for name, texts in columns.items()}
    draft = Draft(source=source, signature=signature, example=example)
    version = Version.read(world.publish(tmp_path_factory.mktemp("forms"), 1, draft))
    rows = examples_of(signature, pa.table(columns))
    training = make_profile(pa.table(TRAINING), features=[*TRAINING], label=None, event_time=None)
    with Session(version.directory, LIMITS) as session:
        examination = Examination(
            session=session,
            baseline=None,
            signature=signature,
            baseline_inputs=frozenset(),
            limits=LIMITS,
            domains=input_domains(signature, training, pa.table(columns), None),
            data=rows,
            failing_inputs=FailingInputs(None, Origin(Path(), "", "", "", LIMITS)),
            end=time.monotonic() + LIMITS.total_seconds,
            good=rows.take(np.array([0])),
        )
        examination.expect(examination.ask(rows.take(np.array([0]))).outputs)
        boundaries(examination)
    return examination.findings


def test_what_no_text_of_its_column_is_may_be_refused(found: list[Finding]) -> None:
    told = {one.subject for one in found if one.outcome is not Outcome.PASS}
    assert told & READ.keys() == set()


def test_new_categories_and_free_texts_have_to_be_answered(found: list[Finding]) -> None:
    assert {one.subject for one in found if one.outcome is Outcome.FAIL} == NAMES.keys()


def test_numbers_that_may_be_checked_or_looked_up_are_a_warning(found: list[Finding]) -> None:
    (told,) = (one for one in found if one.subject == "account" and one.outcome is not Outcome.PASS)
    assert told.outcome is Outcome.WARN
    assert told.sentence.startswith('with `account="☃unseen"` it refuses to answer (')
    assert "see that it checks them, by check digits say, and looks none up" in told.sentence


def test_where_no_profile_lists_the_texts_of_training_those_that_are_answered_may_be_known(
    found: list[Finding],
) -> None:
    """A table of 800 codes answers most other codes that end in another digit, as those of `store`, too."""
    (told,) = (one for one in found if one.subject == "shelf" and one.outcome is not Outcome.PASS)
    assert told.outcome is Outcome.WARN
    assert "see that it reads them and looks none up, for no training profile lists those" in told.sentence


def test_a_version_that_refuses_other_words_in_texts_with_numbers_is_a_warning(found: list[Finding]) -> None:
    (told,) = (one for one in found if one.subject == "order" and one.outcome is not Outcome.PASS)
    assert told.outcome is Outcome.WARN
    assert ', and other texts like those that were seen too, such as "order ' in told.sentence
