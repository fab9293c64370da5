"""From a request id to everything behind its answer: on a running engine, in its log alone, and on the command line."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.command import Command
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.log_blocks import FakeBlock, write_log
from tests.support.models.versions import Draft, adding, digest_of, make_validator, publish

from tidegate_pipelines.receipts import Comparison, Receipt, find_answers, receipt_of
from tidegate_serving.client import Client
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.control_client import ControlClient

TWO_INPUTS = Signature((TensorSpec("x", "float32"), TensorSpec("z", "float32")), (TensorSpec("y", "float32"),))
UPPER = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": np.array([value.upper() for value in inputs["x"]], dtype=object)}
"""
RANDOM = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": inputs["x"] + np.random.default_rng().random(len(inputs["x"]), np.float32)}
"""
DIES = """
import os

class Model:
    def predict(self, inputs):
        os.abort()
"""


WHOLE = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": np.full(len(inputs["x"]), 2**53 + 1)}
"""


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def logged(root: Path, y: float | None, x: float = 1.0, **changes: Any) -> Path:
    """A log with one row of m:1 under the id r0."""
    outputs = {} if y is None else {"y": np.array([y], "f4")}
    write_log(root, FakeBlock({"x": np.array([x], "f4")}, outputs, **changes))
    return root


def receipt(log: Path, directory: Path | None, request_id: str = "r0") -> Receipt:
    (answer,) = find_answers(log, request_id)
    return receipt_of(answer, directory, again=True)


def said(found: Receipt) -> tuple[Comparison, str]:
    assert found.again is not None
    return found.again.comparison, found.again.sentence


def test_an_answer_of_an_engine_comes_out_again(tidegate: Command, tmp_path: Path) -> None:
    directory = publish(tmp_path / "models", "m", 1, adding(1))
    make_validator(tmp_path).sign(directory)
    settings = {"roots": [tmp_path], "log_path": tmp_path / "log", "log_block_seconds": 0.05, "allow_unverified": True}
    with EngineProcess(tmp_path / "engine", **settings) as engine:
        control = str(engine.addresses["control"])
        with ControlClient(control) as client, Client(engine.addresses["grpc"]) as asks:
            push_and_wait(client, directory, labels={"stable": 1})
            asks.predict("m", {"x": np.array([0.1, 2], np.float32)}, request_id="tea/1 pot")
        where = ("receipt", "tea/1 pot", "--control", control)
        eventually(lambda: tidegate(*where).returncode == 0)
        (found,) = json.loads(tidegate(*where, "--json").stdout)
        text = tidegate(*where).stdout
        with ControlClient(control) as client:
            push_and_wait(client, publish(tmp_path / "models", "m", 2, adding(1)), labels={"stable": 2})
        digest = digest_of(directory)
        shutil.rmtree(directory)
        (gone,) = json.loads(tidegate(*where, "--json").stdout)
    assert gone["again"]["sentence"] == "the files that answered are not there"
    assert (found["model"], found["version"], found["status"], found["rows"]) == ("m", 1, 0, 2)
    assert found["manifest_digest"] == digest
    assert found["verdict"]["allowed"] is True
    assert found["verdict"]["sentence"] == "It is as good as the one before."
    assert found["outputs"]["y"] == [float(np.float32(0.1) + np.float32(1)), 3.0]
    assert (found["again"]["comparison"], found["again"]["difference"]) == ("same", 0.0)
    assert (found["batch_size"], found["batch_size_note"]) == (None, "not in the log")
    assert Path(found["log"][0]["file"]).is_file()
    assert found["missing"] == ["m:1 was published without its training data, so it has no fingerprint"]
    assert "m:1 answered tea/1 pot" in text
    assert "exactly the same" in text


def test_another_answer_than_the_logged_one_is_named_with_how_far_it_is(tidegate: Command, tmp_path: Path) -> None:
    directory = publish(tmp_path / "models", "m", 1, adding(1))
    log = logged(tmp_path / "log", 2.5)
    assert said(receipt(log, directory)) == (Comparison.DIFFERS, "computed again, output 'y' differs by 0.2")
    done = tidegate("receipt", "r0", "--log", log, "--repository", tmp_path / "models")
    assert (done.returncode, "differs by 0.2" in done.stderr) == (1, True)
    assert tidegate("receipt", "r0", "--log", log, "--repository", tmp_path, "--no-again").returncode == 0


def test_the_trace_of_the_request_is_shown_where_there_is_one(tidegate: Command, tmp_path: Path) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    for name, found in (("traced", trace), ("plain", None)):
        log = logged(tmp_path / name, 2.0, trace_id=[found])
        where = ("receipt", "r0", "--log", log, "--repository", tmp_path, "--no-again")
        assert json.loads(tidegate(*where, "--json").stdout)[0]["trace_id"] == found
        assert (f"trace            {trace}\n" in tidegate(*where).stdout) is (found is not None)


def test_what_float_arithmetic_makes_of_it_is_the_same(tmp_path: Path) -> None:
    directory = publish(tmp_path / "models", "m", 1, adding(1))
    found = receipt(logged(tmp_path / "log", 2.000001), directory)
    assert said(found)[0] is Comparison.SAME
    assert "float arithmetic" in said(found)[1]


@pytest.mark.parametrize(("value", "found"), [(2**53 + 1, Comparison.SAME), (2**53, Comparison.DIFFERS)])
def test_whole_numbers_are_compared_exactly(tmp_path: Path, value: int, found: Comparison) -> None:
    signature = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "int64"),))
    directory = publish(tmp_path / "repo", "m", 1, Draft(files={"model.py": WHOLE}, signature=signature))
    write_log(tmp_path / "log", FakeBlock({"x": np.array([1], "f4")}, {"y": np.array([value], "i8")}))
    assert said(receipt(tmp_path / "log", directory))[0] is found


@pytest.mark.parametrize(
    ("draft", "changes", "reason"),
    [
        (Draft(files={"model.py": RANDOM}), {}, "not deterministic"),
        (Draft(files={"model.py": DIES}), {}, "SIGABRT"),
        (adding(1), {"status": [13]}, "failed with status 13"),
        (adding(1), {"signature": "classify"}, "no signature 'classify'"),
        (adding(1, signature=TWO_INPUTS), {}, "input 'z' is not in the log"),
    ],
)
def test_what_cannot_be_computed_says_why(tmp_path: Path, draft: Draft, changes: dict[str, Any], reason: str) -> None:
    directory = publish(tmp_path / "models", "m", 1, draft)
    comparison, sentence = said(receipt(logged(tmp_path / "log", 2.0, **changes), directory))
    assert comparison is Comparison.NOT_COMPUTED
    assert reason in sentence


def test_columns_of_another_signature_of_the_version_are_none_of_the_answer(tmp_path: Path) -> None:
    directory = publish(tmp_path / "models", "m", 1, adding(1))
    write_log(
        tmp_path / "log",
        FakeBlock({"x": np.array([1.0], "f4")}, {"y": np.array([2.0], "f4"), "vector": np.array([None], object)}),
    )
    assert said(receipt(tmp_path / "log", directory))[0] is Comparison.SAME


def test_files_that_are_gone_or_came_later_are_not_asked(tmp_path: Path) -> None:
    log = logged(tmp_path / "log", 2.0)
    gone = receipt(log, tmp_path / "models" / "m" / "1")
    assert said(gone) == (Comparison.NOT_COMPUTED, "the files that answered are not there")
    assert "is gone" in gone.provenance.missing[0]
    directory = publish(tmp_path / "models", "m", 1, adding(1))
    before = logged(tmp_path / "early", 2.0, received=datetime(2025, 12, 31, tzinfo=UTC))
    assert "after m:1 answered" in receipt(before, directory).provenance.missing[0]
    (directory / "model.py").write_text("changed")
    assert "model.py" in said(receipt(log, directory))[1]


def test_texts_and_a_request_without_a_batch_are_asked_as_they_were(tmp_path: Path) -> None:
    texts = Signature((TensorSpec("x", "string"),), (TensorSpec("y", "string"),))
    directory = publish(
        tmp_path / "models", "m", 1, Draft(files={"model.py": UPPER}, signature=texts, example={"x": "a"})
    )
    block = FakeBlock({"x": np.array([b"tea"], object)}, {"y": np.array([b"TEA"], object)})
    write_log(tmp_path / "log", block)
    assert said(receipt(tmp_path / "log", directory)) == (
        Comparison.SAME,
        "computed again, the answer is exactly the same",
    )
    block = FakeBlock({"x": np.array([b"\xff"], object)}, {"y": np.array([b"\xff"], object)}, request_id=["raw"])
    write_log(tmp_path / "log", block)
    assert "bytes that are no text" in said(receipt(tmp_path / "log", directory, "raw"))[1]
    free = Signature(
        (TensorSpec("x", "float32", (3,)),), (TensorSpec("y", "float32", (3,)),), first_axis=FirstAxis.FREE
    )
    directory = publish(tmp_path / "models", "m", 2, adding(1, signature=free, example={"x": [1.0, 2.0, 3.0]}))
    row = np.array([[1, 2, 3]], "f4")
    write_log(tmp_path / "log", FakeBlock({"x": row}, {"y": row + 1}, version=2, request_id=["free"]))
    assert said(receipt(tmp_path / "log", directory, "free"))[0] is Comparison.SAME


def test_a_single_text_without_a_batch_comes_out_again(tmp_path: Path) -> None:
    single = Signature((TensorSpec("x", "string", ()),), (TensorSpec("y", "string", ()),), first_axis=FirstAxis.FREE)
    model = """import numpy as np


class Model:
    def predict(self, inputs):
        return {"y": np.array(inputs["x"].item().upper(), dtype=object)}
"""
    draft = Draft(files={"model.py": model}, signature=single, example={"x": "a"})
    directory = publish(tmp_path / "models", "m", 1, draft)
    for name, answer in (("same", b"TEA"), ("other", b"COFFEE")):
        block = FakeBlock({"x": np.array([b"tea"], object)}, {"y": np.array([answer], object)}, request_id=[name])
        write_log(tmp_path / "log", block)
    assert said(receipt(tmp_path / "log", directory, "same"))[0] is Comparison.SAME
    assert said(receipt(tmp_path / "log", directory, "other"))[0] is Comparison.DIFFERS


def test_an_id_that_was_used_again_has_a_receipt_for_each_answer(tmp_path: Path) -> None:
    log = logged(tmp_path / "log", 2.0)
    logged(log, 3.0, version=2, received=datetime(2026, 3, 2, tzinfo=UTC))
    logged(log, 3.0, version=3, received=datetime(2026, 3, 2, tzinfo=UTC) - timedelta(hours=1), role=[1])
    logged(log, 3.0, model="other")
    found = [(one.model, one.version, one.role) for one in find_answers(log, "r0")]
    assert found[:2] == [("m", 2, "primary"), ("m", 3, "shadow")]
    assert set(found[2:]) == {("m", 1, "primary"), ("other", 1, "primary")}
    assert [one.model for one in find_answers(log, "r0", "other")] == ["other"]


def test_a_group_of_engines_has_one_log(tmp_path: Path) -> None:
    logged(tmp_path / "log" / "north", 2.0)
    (found,) = find_answers(tmp_path / "log", "r0")
    assert (found.model, found.version) == ("m", 1)


@pytest.mark.parametrize("wrong", ["", "a\nb", "x" * 257, "tée"])
def test_an_id_that_none_can_have_is_refused(tidegate: Command, tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InvalidInput, match="x-request-id"):
        find_answers(logged(tmp_path / "log", 2.0), wrong)
    assert tidegate("receipt", wrong, "--log", tmp_path / "log").returncode == 2


def test_a_request_that_the_log_does_not_have_says_why_it_may_not(tidegate: Command, tmp_path: Path) -> None:
    log = logged(tmp_path / "log", 2.0)
    for model in (None, "other"):
        with pytest.raises(NotFound, match=r"log_sampling_rate.*erased"):
            find_answers(log, "unknown", model)
    with pytest.raises(NotFound, match="is no folder"):
        find_answers(tmp_path / "nowhere", "r0")
    done = tidegate("receipt", "r0")
    assert (done.returncode, "--log ROOT" in done.stderr) == (2, True)
