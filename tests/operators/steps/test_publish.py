"""Publishing: everything or nothing, and errors that name what does not fit."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate_operators.steps import Publication, PublishedVersion, publish
from tidegate_serving.contract.errors import (
    AlreadyExists,
    InvalidInput,
    ModelFailed,
    NotFound,
    Tampered,
    TidegateError,
    Unsupported,
)
from tidegate_serving.contract.manifest import read_manifest, verify_files
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.platforms.example import example_inputs
from tidegate_validation.expectations import read_suites
from tidegate_validation.sandbox.examples import example_of
from tidegate_validation.statistics import read_profile

SIGNATURE = Signature(
    inputs=(TensorSpec("x", "float32"), TensorSpec("kind", "string"), TensorSpec("at", "int64")),
    outputs=(TensorSpec("y", "float32"),),
)
EXAMPLE = {"x": 1.0, "kind": "a", "at": 1370000000}


def training(rows: int = 200) -> pa.Table:
    return pa.table(
        {
            "x": pa.array(np.linspace(0.0, 1.0, rows), pa.float32()),
            "kind": ["a" if row % 3 else "b" for row in range(rows)],
            "at": pa.array([1370000000 + 3600 * row for row in range(rows)], pa.int64()),
            "late": [row % 2 for row in range(rows)],
        }
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "trained"
    (folder / "extra").mkdir(parents=True)
    (folder / "model.py").write_text("class Model:\n    pass\n")
    (folder / "extra" / "words.txt").write_text("hello\n")
    return folder


def put(model: Path | list[Path], repository: Path, **changed: Any) -> PublishedVersion:
    given: dict[str, Any] = {
        "files": model,
        "servable": "m",
        "version": 3,
        "platform": "python",
        "signature": {"serving_default": SIGNATURE},
        "repository": repository,
        "training": training(),
        "label": "late",
        "event_time": "at",
        "example": EXAMPLE,
    }
    return publish(Publication(**{**given, **changed}))


def leftovers(repository: Path) -> list[str]:
    folder = repository / "m"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_a_version_has_its_files_profile_and_manifest(model: Path, tmp_path: Path) -> None:
    published = put(model, tmp_path / "models", metadata={"title": "a model"})
    assert published.directory == tmp_path / "models" / "m" / "3"
    manifest, digest = read_manifest(published.directory)
    assert digest == published.manifest_digest
    assert (manifest.label, manifest.event_time, manifest.metadata["title"]) == ("late", "at", "a model")
    assert {"model.py", "extra/words.txt", "profile/profile.json"} <= {entry.path for entry in manifest.files}
    verify_files(manifest, published.directory)
    profile = read_profile(published.directory / "profile")
    assert set(profile.features) >= {"x", "kind"}


def test_a_single_file_is_copied_under_its_own_name(model: Path, tmp_path: Path) -> None:
    published = put(model / "model.py", tmp_path / "models", training=None)
    assert (published.directory / "model.py").read_text() == (model / "model.py").read_text()


def test_numpy_values_in_the_example_become_json(model: Path, tmp_path: Path) -> None:
    example = {"x": np.float32(0.5), "kind": np.str_("a"), "at": np.int64(7)}
    published = put(model, tmp_path / "models", example=example)
    assert json.loads((published.directory / "manifest.json").read_text())["example"] == {
        "x": 0.5,
        "kind": "a",
        "at": 7,
    }


def test_a_taken_version_is_refused_and_stays_as_it_is(model: Path, tmp_path: Path) -> None:
    first = put(model, tmp_path / "models")
    (model / "model.py").write_text("class Model:\n    other = True\n")
    with pytest.raises(AlreadyExists, match="publish under a new number"):
        put(model, tmp_path / "models")
    verify_files(read_manifest(first.directory)[0], first.directory)


def test_publishing_the_same_again_changes_nothing(model: Path, tmp_path: Path) -> None:
    first = put(model, tmp_path / "models")
    before = first.directory.stat().st_mtime_ns
    assert put(model, tmp_path / "models") == first
    assert first.directory.stat().st_mtime_ns == before
    assert leftovers(tmp_path / "models") == [".publish.lock", "3"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"class Model:\n    def predict(self, inputs)\n", r"^model\.py, line 2 is not valid Python.*: expected ':'"),
        (b"class Model:\n\treturn\n        pass\n", r"^model\.py, line \d is not valid Python"),
        (b"name = '\xff'\n", r"^model\.py.* is not valid Python.*decode"),
        (b"class Model:\n    pass\0\n", r"^model\.py is not valid Python.*null bytes"),
        (b"class Model:\n    pass\nreturn 1\n", r"^model\.py, line 3 is not valid Python 3\.\d+,.*outside function"),
        pytest.param(b"one = " + b"-" * 100_000 + b"1\n", r"^model\.py is nested too deeply", id="signs"),
        pytest.param(b"one = " + b"+".join([b"1"] * 200_000) + b"\n", r"^model\.py is nested too deeply", id="sum"),
    ],
)
def test_a_python_model_that_is_no_python_is_refused(model: Path, tmp_path: Path, source: bytes, words: str) -> None:
    (model / "model.py").write_bytes(source)
    with pytest.raises(InvalidInput, match=words):
        put(model, tmp_path / "models")
    assert leftovers(tmp_path / "models") == [".publish.lock"]


def test_a_python_model_is_read_and_not_run(model: Path, tmp_path: Path) -> None:
    """Beside it may lie what is no Python, such as a template."""
    (model / "extra" / "template.py.txt").write_text("{{ this }}")
    (model / "model.py").write_text("# -*- coding: latin-1 -*-\nraise SystemExit(f'{1!r}')\n", encoding="latin-1")
    published = put(model, tmp_path / "models")
    assert (published.directory / "model.py").read_bytes() == (model / "model.py").read_bytes()


def test_a_python_model_of_several_files_names_which_one_it_is(model: Path, tmp_path: Path) -> None:
    (model / "helper.py").write_text("")
    with pytest.raises(InvalidInput, match=r"name the model's file in metadata 'python\.file'"):
        put(model, tmp_path / "models")
    put(model, tmp_path / "models", metadata={"python.file": "model.py"})


@pytest.mark.parametrize("key", ["example", "label", "metadata"])
def test_the_same_files_described_otherwise_are_another_version(model: Path, tmp_path: Path, key: str) -> None:
    other = {"example": {**EXAMPLE, "x": 0.25}, "label": None, "metadata": {"by": "anna"}}
    put(model, tmp_path / "models")
    with pytest.raises(AlreadyExists, match=f"with other .*{key}"):
        put(model, tmp_path / "models", **{key: other[key]})


def test_a_published_file_that_was_changed_is_named_when_it_is_published_again(model: Path, tmp_path: Path) -> None:
    first = put(model, tmp_path / "models")
    (first.directory / "model.py").write_text("class Model:\n    other = True\n")
    with pytest.raises(Tampered, match=r"model\.py"):
        put(model, tmp_path / "models")


def test_half_a_version_that_somebody_left_is_not_overwritten(model: Path, tmp_path: Path) -> None:
    (tmp_path / "models" / "m" / "3").mkdir(parents=True)
    with pytest.raises(AlreadyExists, match=r"without a manifest\.json"):
        put(model, tmp_path / "models")


def test_what_a_dead_publisher_left_is_cleaned(model: Path, tmp_path: Path) -> None:
    dead = tmp_path / "models" / "m" / ".3.deadbeef.publishing"
    dead.mkdir(parents=True)
    (dead / "half.onnx").write_bytes(b"half")
    put(model, tmp_path / "models")
    assert leftovers(tmp_path / "models") == [".publish.lock", "3"]


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"example": {"x": 1.0, "at": 1}}, InvalidInput, "lacks a value for input kind"),
        ({"example": {**EXAMPLE, "speed": 1}}, InvalidInput, "speed, which no signature takes"),
        ({"example": {**EXAMPLE, "x": "much"}}, InvalidInput, "'much' for input x is no float32"),
        ({"example": {**EXAMPLE, "x": float("nan")}}, InvalidInput, "nan for input x"),
        ({"example": {**EXAMPLE, "at": 1.5}}, InvalidInput, r"1\.5 for input at is no int64"),
        ({"example": {**EXAMPLE, "at": 2**70}}, InvalidInput, r"1180591620717411303424 for input at is no int64"),
        ({"example": {**EXAMPLE, "x": 1e300}}, InvalidInput, r"1e\+300 for input x is no float32"),
        (
            {"example": {**EXAMPLE, "x": [1.0, 2.0]}},
            InvalidInput,
            r"input x has shape \[2\], but by the signature a row of the input has \[\]: correct the example, or",
        ),
        ({"example": {**EXAMPLE, "x": [[1.0], [2.0, 3.0]]}}, InvalidInput, "input x has rows of unequal length"),
        ({"training": training().drop_columns(["kind"])}, InvalidInput, "training data lacks kind"),
        (
            {"signature": Signature((TensorSpec("m", "float32", (-1, 5)),), SIGNATURE.outputs), "example": None},
            InvalidInput,
            r"data lacks m \(it has .*; m takes 5 values a row, so data need a column m with a list of them",
        ),
        (
            {"training": None, "sample": training().drop_columns(["kind"]), "example": None},
            InvalidInput,
            r"^the data lacks kind \(it has .*: its columns must bear the names of the model's inputs$",
        ),
        ({"training": None, "sample": pa.table({}), "example": None}, InvalidInput, r"lacks .* \(it has no columns\)"),
        ({"training": None, "sample": training()[:0], "example": None}, InvalidInput, "^the data has no rows: give"),
        ({"label": "truth"}, InvalidInput, "training data lacks truth"),
        ({"training": training().slice(0, 0)}, InvalidInput, "no rows"),
        ({"signature": {}}, InvalidInput, "at least one signature"),
        ({"platform": "onx"}, Unsupported, "'onx' is unknown"),
        ({"servable": "../m"}, InvalidInput, "servable name"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_left(
    changed: dict[str, Any], error: type[TidegateError], words: str, model: Path, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        put(model, tmp_path / "models", **changed)
    assert leftovers(tmp_path / "models") == []


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda model: (model / "link").symlink_to("model.py"), InvalidInput, "link is a link"),
        (lambda model: (model / "manifest.json").write_text("{}"), InvalidInput, "written by publish"),
        (lambda model: (model / "profile").mkdir(), InvalidInput, "written by publish"),
        (lambda model: model.rename(model.with_name("gone")), NotFound, "trained is missing"),
    ],
)
def test_files_that_cannot_be_published_are_named_and_nothing_is_left(
    spoil: Callable[[Path], object], error: type[TidegateError], words: str, model: Path, tmp_path: Path
) -> None:
    spoil(model)
    with pytest.raises(error, match=words):
        put(model, tmp_path / "models")
    assert leftovers(tmp_path / "models") in ([], [".publish.lock"])


def test_an_example_is_a_row_although_another_signature_takes_that_input_whole(model: Path, tmp_path: Path) -> None:
    whole = Signature((TensorSpec("x", "float32", ()),), SIGNATURE.outputs, first_axis=FirstAxis.FREE)
    published = put(model, tmp_path / "models", signature={"serving_default": SIGNATURE, "whole": whole})
    assert set(read_manifest(published.directory)[0].signatures) == {"serving_default", "whole"}


def test_publishing_from_paths_takes_the_example_from_the_first_complete_row(model: Path, tmp_path: Path) -> None:
    table = training().set_column(0, "x", pa.array([None, float("nan"), 0.25] + [1.0] * 197, pa.float32()))
    pq.write_table(table, tmp_path / "train.parquet")
    (tmp_path / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
    published = publish(
        Publication(
            files=[model],
            servable="m",
            version=1,
            platform="python",
            repository=tmp_path / "models",
            training=tmp_path / "train.parquet",
            signature=tmp_path / "signature.json",
            label="late",
            event_time="at",
        )
    )
    manifest, _ = read_manifest(published.directory)
    assert manifest.example == {"x": 0.25, "kind": "a", "at": 1370000000 + 2 * 3600}
    assert manifest.signatures == {"serving_default": SIGNATURE}


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"training": Path("no.parquet")}, NotFound, r"training data no\.parquet is missing"),
        ({"signature": None}, Unsupported, "platform 'python'"),
        ({"signature": None, "platform": "onx"}, Unsupported, "'onx' is unknown here: use one of"),
        ({"training": Path("other.parquet")}, InvalidInput, "the training data lacks x, kind"),
        ({"example": Path("no.json")}, NotFound, r"no\.json is missing"),
        ({"files": [Path("no-model")]}, NotFound, "no-model is missing"),
    ],
)
def test_paths_that_do_not_lead_anywhere_are_named(
    changed: dict[str, Any],
    error: type[TidegateError],
    words: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"at": [1], "late": [1]}), "other.parquet")
    (tmp_path / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
    given = {
        "files": [model],
        "servable": "m",
        "version": 1,
        "platform": "python",
        "repository": tmp_path / "models",
        "signature": tmp_path / "signature.json",
    }
    with pytest.raises(error, match=words):
        publish(Publication(**{**given, **changed}))


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_is_no_plain_file_is_refused_by_name(kind: str, model: Path, tmp_path: Path) -> None:
    odd = model / "extra" / "odd"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        if kind == "pipe":
            os.mkfifo(odd)
        else:
            listener.bind(str(odd))
        for files in (model, [odd]):
            with pytest.raises(InvalidInput, match=r"extra/odd is a device, pipe or socket: .* remove it"):
                put(files, tmp_path / "models")
    assert leftovers(tmp_path / "models") == []


def test_a_repository_inside_of_the_models_folder_is_refused(model: Path) -> None:
    with pytest.raises(InvalidInput, match=r"the repository .*models lies in .*trained, which would be copied into it"):
        put(model, model / "models")


def test_a_version_carries_the_expectations_of_its_data(model: Path, tmp_path: Path) -> None:
    published = put(model, tmp_path / "models")
    suites = read_suites(published.directory / "expectations")
    assert suites is not None
    assert {one.subject for one in suites.rows} >= {"x", "kind"}
    manifest, _ = read_manifest(published.directory)
    listed = {entry.path for entry in manifest.files}
    assert {"expectations/suite.json", "expectations/statistics.json"} <= listed


def test_edited_expectations_are_published_as_they_are(model: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited"
    edited.mkdir()
    (edited / "suite.json").write_text('{"notes": "by hand", "expectations": [{"type": "expect_column_to_exist"}]}')
    published = put(model, tmp_path / "models", expectations=edited)
    assert (published.directory / "expectations" / "suite.json").read_bytes() == (edited / "suite.json").read_bytes()
    assert not (published.directory / "expectations" / "statistics.json").exists()


@pytest.mark.parametrize(("text", "error"), [(None, NotFound), ("{", InvalidInput)])
def test_expectations_that_cannot_be_read_publish_nothing(
    model: Path, tmp_path: Path, text: str | None, error: type[TidegateError]
) -> None:
    (tmp_path / "edited").mkdir()
    if text is not None:
        (tmp_path / "edited" / "suite.json").write_text(text)
    with pytest.raises(error, match=r"suite\.json"):
        put(model, tmp_path / "models", expectations=tmp_path / "edited")
    assert not list(tmp_path.rglob("manifest.json"))


def test_a_saved_model_is_published_with_all_its_signatures(saved_models: Path, tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(np.linspace(0.0, 9.0, 50), pa.float32())})
    path = tmp_path / "train.parquet"
    pq.write_table(table, path)
    published = publish(
        Publication([saved_models / "half_plus_two/1"], "half", 1, "tensorflow", tmp_path / "models", training=path)
    )
    manifest, _ = read_manifest(published.directory)
    assert len(manifest.signatures) == 5
    assert manifest.example == {"x": 0.0}
    verify_files(manifest, published.directory)


def test_a_table_is_published_from_its_file_alone(tmp_path: Path) -> None:
    (tmp_path / "airports.json").write_text('{"JFK": {"delay": 1.5}}')
    publication = Publication([tmp_path / "airports.json"], "airports", 1, "table", tmp_path / "models")
    manifest, _ = read_manifest(publish(publication).directory)
    assert manifest.example == {"key": "JFK"}


def test_a_signature_that_its_own_example_cannot_meet_is_refused(model: Path, tmp_path: Path) -> None:
    block = Signature((TensorSpec("x", "float32", (-1, 3)),), (TensorSpec("y", "float32"),))
    given = {"signature": {"serving_default": block}, "training": None, "label": None, "event_time": None}
    with pytest.raises(InvalidInput, match=r"has shape \[2\], but by the signature a row of the input has \[3\]"):
        put(model, tmp_path / "models", **given, example={"x": [1.0, 2.0]})
    assert not (tmp_path / "models" / "m" / "3").exists()
    put(model, tmp_path / "models", **given, example={"x": [1.0, 2.0, 3.0]})


def test_the_example_of_an_input_with_axes_of_one_has_them(model: Path, tmp_path: Path) -> None:
    column = Signature((TensorSpec("x", "float32", (-1, 1)),), (TensorSpec("y", "float32"),))
    given = {"signature": {"serving_default": column}, "label": None, "event_time": None, "example": None}
    published = put(model, tmp_path / "models", **given)
    assert read_manifest(published.directory)[0].example == {"x": [0.0]}


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ns", tz="UTC"), pa.string()])
def test_training_may_tell_event_times_as_stamps_or_texts(model: Path, tmp_path: Path, kind: pa.DataType) -> None:
    stamps = training()["at"].cast(pa.timestamp("s")).cast(kind)
    stamped = training().set_column(2, "at", stamps)
    of_stamps = put(model, tmp_path / "stamps", training=stamped, example=None)
    of_numbers = put(model, tmp_path / "numbers", example=None)
    assert read_manifest(of_stamps.directory)[0].example["at"] == 1370000000
    profiles = [read_profile(one.directory / "profile") for one in (of_stamps, of_numbers)]
    assert profiles[0].blocks == profiles[1].blocks


def test_code_of_a_model_that_fails_is_told_by_its_file_and_the_name_it_is_published_under(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("import no_such_library")
    files = tmp_path / "code.py"
    with pytest.raises(ModelFailed, match=r"code\.py of flights:3 cannot be imported: .*no_such_library"):
        publish(Publication(files=files, servable="flights", version=3, platform="python", repository=tmp_path / "m"))


def test_bytes_that_are_no_text_are_an_example(model: Path, tmp_path: Path) -> None:
    """As images are: the row of the training data, JSON of one's own, and what a warm-up and the gates make of it."""
    image = bytes(range(200, 256))
    table = training().set_column(1, "kind", pa.array([image] * 200, pa.binary()))
    for version, example in ((3, None), (4, {**EXAMPLE, "kind": {"b64": base64.b64encode(image).decode()}})):
        published = put(model, tmp_path / "models", version=version, training=table, example=example)
        manifest, _ = read_manifest(published.directory)
        assert manifest.example["kind"] == {"b64": base64.b64encode(image).decode()}
        warm_up, judged = example_inputs(SIGNATURE, manifest.example), example_of(SIGNATURE, manifest.example)
        assert warm_up is not None
        assert judged is not None
        assert warm_up["kind"].tolist() == judged.arrays["kind"].tolist() == [image]
    for wrong in ({"b64": "not base64!"}, {"b65": "AAAA"}):
        with pytest.raises(InvalidInput, match=r"is no base64|is no string"):
            put(model, tmp_path / "models", version=5, example={**EXAMPLE, "kind": wrong})
