"""Models that are Python classes: loaded, asked, forgotten, and refused by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.models.versions import Draft, digest_of, flip, publish

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, ModelFailed, NotFound, Tampered, TidegateError, Unsupported
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.platforms.loader import Answer, LoadedVersion
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.version_loader import VersionLoader

X = np.array([1, 2], dtype=np.float32)
TIMED = Signature((TensorSpec("x", "float32"), TensorSpec("at", "float64")), (TensorSpec("y", "float32"),))


def admit(manifest: Manifest, digest: str) -> None:
    """Everybody."""


def loader_of(directory: Path, **changes: Any) -> VersionLoader:
    manifest, digest = read_manifest(directory)
    path = VersionReference(manifest.id.version, directory, changes.get("digest", digest), manifest.platform)
    registry = installed_platforms(PlatformOptions())
    return VersionLoader(changes.get("id", manifest.id), path, registry, changes.get("admit", admit))


def loaded(tmp_path: Path, source: str, **changes: Any) -> LoadedVersion:
    return loader_of(publish(tmp_path, "m", 1, Draft(files={"model.py": source}, **changes))).load()


def answer(loaded: LoadedVersion, **inputs: Any) -> Any:
    return loaded.servable.predict("serving_default", inputs or {"x": X})


def test_a_class_answers(tmp_path: Path) -> None:
    version = loader_of(publish(tmp_path, "m", 1)).load()
    assert answer(version)["y"].tolist() == [2.5, 3.0]


def test_a_table_with_named_columns_is_an_answer(tmp_path: Path) -> None:
    source = "import pandas\nclass Model:\n    def predict(self, inputs):\n"
    source += "        rows = pandas.DataFrame(inputs).set_index('x', drop=False)\n"
    source += "        return rows.assign(y=rows['x'] + 1)[['y']]\n"
    given = answer(loaded(tmp_path, source))
    assert {name: one.tolist() for name, one in given.items()} == {"y": [2.0, 3.0]}


@pytest.mark.parametrize("given", ["(one for one in ({'y': inputs['x']},))", "iter([{'y': inputs['x']}])"])
def test_messages_of_a_signature_that_answers_once_are_refused(tmp_path: Path, given: str) -> None:
    source = f"class Model:\n    def predict(self, inputs):\n        return {given}\n"
    with pytest.raises(ModelFailed, match=r"returned \w+, but signature 'serving_default' answers once: return a dict"):
        loaded(tmp_path, source)


def test_the_constructor_may_have_the_directory(tmp_path: Path) -> None:
    source = "class Model:\n    def __init__(self, directory):\n        self.n = len(list(directory.iterdir()))\n"
    source += "    def predict(self, inputs):\n        return {'y': inputs['x'] + self.n}\n"
    assert answer(loaded(tmp_path, source))["y"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize("constructor", ["self, n=1", "self, *, n=1", "self, n=1, *more, **others"])
def test_arguments_with_defaults_keep_them(tmp_path: Path, constructor: str) -> None:
    source = f"class Model:\n    def __init__({constructor}):\n        self.n = n\n"
    source += "    def predict(self, inputs):\n        return {'y': inputs['x'] + self.n}\n"
    assert answer(loaded(tmp_path, source))["y"].tolist() == [2.0, 3.0]


def test_a_class_without_a_constructor_of_its_own_may_be_of_a_built_in_kind(tmp_path: Path) -> None:
    source = "class Model(dict):\n    def predict(self, inputs):\n        return {'y': inputs['x'] + len(self)}\n"
    assert answer(loaded(tmp_path, source))["y"].tolist() == [1.0, 2.0]


def test_an_import_of_what_lies_beside_says_how_it_is_written(tmp_path: Path) -> None:
    for name, file in (("a", "helper.py"), ("b", "helper/__init__.py")):
        files = {"model.py": "import helper\nclass Model: ...", file: ""}
        directory = publish(tmp_path, name, 1, Draft(files=files, metadata={"python.file": "model.py"}))
        with pytest.raises(ModelFailed, match=r"imports 'helper'.*write `from \. import helper`"):
            loader_of(directory).load()


def test_what_a_model_raises_is_told_in_few_words(tmp_path: Path) -> None:
    long = "class Model:\n    def predict(self, inputs):\n        raise ValueError('x' * 10_000_000)\n"
    with pytest.raises(ModelFailed, match=r"raised ValueError: x{2000}\.\.\.$"):
        loaded(tmp_path / "long", long)
    mute = "class Mute(Exception):\n    def __str__(self):\n        raise KeyError\n"
    mute += "class Model:\n    def predict(self, inputs):\n        raise Mute\n"
    with pytest.raises(ModelFailed, match=r"raised Mute: \(its text raised KeyError\)$"):
        loaded(tmp_path / "mute", mute)


def test_helpers_of_two_versions_never_mix_and_no_byte_code_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    source = "from . import helper\nfrom .deep.inner import add\n\nclass Model:\n    def predict(self, inputs):\n"
    source += "        from . import late\n        return {'y': add(inputs['x'], helper.N + late.N)}\n"
    versions = []
    for number in (1, 2):
        files = {
            "model.py": source,
            "helper.py": f"N = {number}\n",
            "late.py": "N = 0\n",
            "deep/__init__.py": "",
            "deep/inner.py": "def add(a, b):\n    return a + b\n",
        }
        directory = publish(tmp_path, "m", number, Draft(files=files, metadata={"python.file": "model.py"}))
        versions.append((directory, loader_of(directory)))
    running = [loader.load() for _, loader in versions]
    assert [answer(version)["y"].tolist() for version in running] == [[2.0, 3.0], [3.0, 4.0]]
    for directory, loader in versions:
        loader.unload()
        assert not list(directory.rglob("__pycache__")), "or the next load would find a file too many"
        loader_of(directory).load()


def test_a_closed_version_leaves_no_modules(tmp_path: Path) -> None:
    before = set(sys.modules)
    loader = loader_of(publish(tmp_path, "m", 1))
    loader.load()
    assert set(sys.modules) - before
    loader.unload()
    assert not {name for name in set(sys.modules) - before if name.startswith("tidegate_version")}


@pytest.mark.parametrize("source", ["x = 1", "class Model:\n    def __init__(self):\n        raise ValueError('no')\n"])
def test_a_version_that_cannot_be_made_leaves_no_modules(tmp_path: Path, source: str) -> None:
    before = set(sys.modules)
    with pytest.raises(TidegateError):
        loaded(tmp_path, source)
    assert not {name for name in set(sys.modules) - before if name.startswith("tidegate_version")}


def test_the_event_time_is_dropped_unless_the_class_wants_it(tmp_path: Path) -> None:
    source = "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['x'] + len(inputs)}\n"
    changes = {"signature": TIMED, "event_time": "at", "example": {"x": 1.0, "at": 2.0}}
    at = np.array([1.0, 2.0])
    assert answer(loaded(tmp_path / "a", source, **changes), x=X, at=at)["y"].tolist() == [2.0, 3.0]
    wants = source.replace("Model:\n", "Model:\n    uses_event_time = True\n")
    assert answer(loaded(tmp_path / "b", wants, **changes), x=X, at=at)["y"].tolist() == [3.0, 4.0]


def test_class_and_method_can_be_named(tmp_path: Path) -> None:
    source = "class Scorer:\n    def score(self, inputs):\n        return {'y': -inputs['x']}\n"
    metadata = {"python.class": "Scorer", "python.methods": '{"serving_default": "score"}'}
    assert answer(loaded(tmp_path, source, metadata=metadata))["y"].tolist() == [-1.0, -2.0]


def test_errors_by_row_pass_through(tmp_path: Path) -> None:
    source = "from tidegate_serving.platforms.loader import Answer\n"
    source += "from tidegate_serving.contract.errors import InvalidInput\n"
    source += "class Model:\n    def predict(self, inputs):\n"
    source += "        bad = {i: InvalidInput('negative') for i, x in enumerate(inputs['x']) if x < 0}\n"
    source += "        return Answer({'y': inputs['x']}, bad)\n"
    result = answer(loaded(tmp_path, source), x=np.array([1, -1], dtype=np.float32))
    assert isinstance(result, Answer)
    assert list(result.errors) == [1]


@pytest.mark.parametrize(
    ("source", "changes", "kind", "match"),
    [
        ("x = (", {}, ModelFailed, "SyntaxError"),
        ("import nowhere_to_be_found", {}, ModelFailed, "nowhere_to_be_found"),
        ("x = 1", {}, InvalidInput, "has no class 'Model'"),
        ("class Model: ...", {}, InvalidInput, "no method 'predict'"),
        ("class Model:\n    def predict(self, inputs):\n        return 1\n", {}, ModelFailed, "returned int"),
        ("class Model:\n    def predict(self, inputs):\n        return {}\n", {}, ModelFailed, "no output 'y'"),
        ("class Model:\n    def __init__(self, a, b): ...", {}, InvalidInput, "Model of m:1 needs a, b to be made"),
        ("raise SystemExit(3)", {}, ModelFailed, "SystemExit"),
        ("class Model: ...", {"metadata": {"python.file": "other.py"}}, InvalidInput, r"other\.py"),
        ("class Model: ...", {"metadata": {"python.methods": "x"}}, InvalidInput, r"python\.methods"),
        ("class Model: ...", {"platform": "cobol"}, Unsupported, "onnx, python, sklearn"),
    ],
)
def test_what_cannot_load_says_why(
    tmp_path: Path, source: str, changes: dict[str, Any], kind: type[TidegateError], match: str
) -> None:
    with pytest.raises(kind, match=match):
        loaded(tmp_path, source, **changes)


def test_the_loader_verifies_right_before_it_loads(tmp_path: Path) -> None:
    directory = publish(tmp_path, "m", 1)
    loader = loader_of(directory)
    flip(directory / "model.py", 5)
    with pytest.raises(Tampered, match=r"model\.py differs"):
        loader.load()
    flip(directory / "model.py", 5)
    loader.load()
    with pytest.raises(Tampered, match="not the manifest that m:1 was pushed with"):
        loader_of(directory, digest="0" * 64).load()
    with pytest.raises(Tampered, match="holds m:1, not m:2"):
        loader_of(directory, id=ServableId("m", 2)).load()
    (directory / "manifest.json").unlink()
    with pytest.raises(NotFound, match="not complete"):
        loader.load()


def test_the_loader_asks_for_admission_before_any_code_runs(tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    directory = publish(tmp_path, "m", 1, Draft(files={"model.py": f"open({str(witness)!r}, 'w')"}))
    asked: list[str] = []

    def refuse(manifest: Manifest, digest: str) -> None:
        asked.append(digest)
        raise Tampered("not today")

    with pytest.raises(Tampered, match="not today"):
        loader_of(directory, admit=refuse).load()
    assert asked == [digest_of(directory)]
    assert not witness.exists()


def test_the_estimate_counts_files_but_not_the_profile(tmp_path: Path) -> None:
    files = {"model.py": b"x" * 100, "profile/counts.parquet": b"y" * 1000}
    directory = publish(tmp_path, "m", 1, Draft(files=files))
    assert loader_of(directory).estimate() == {"ram": 120}


def test_a_class_tells_what_it_holds_of_gpus_and_bad_words_about_it_are_refused(tmp_path: Path) -> None:
    source = (
        "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['x']}\n    def device_bytes(self):\n"
    )
    version = loaded(tmp_path / "a", source + "        return {'gpu:1': 12, 'ram': 3}\n")
    assert version.measured == {"gpu:1": 12}
    assert loader_of(publish(tmp_path / "b", "m", 1)).load().measured == {}
    with pytest.raises(InvalidInput, match=r"device_bytes\(\) of m:1 gave {'gpu:0': 'all'}: return whole numbers"):
        loaded(tmp_path / "c", source + "        return {'gpu:0': 'all'}\n")
