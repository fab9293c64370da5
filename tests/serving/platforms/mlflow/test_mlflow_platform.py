"""MLflow models as MLflow writes them: native where a platform takes the flavour, else pyfunc in an engine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess
from tests.support.models.loading import discover, load_published, load_unpublished, outputs
from tests.support.models.mlflow_models import build
from tests.support.models.versions import Draft, publish

from tidegate_serving.client import Client
from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused, Unsupported
from tidegate_serving.contract.servable import State
from tidegate_serving.contract.signature import SERVING_DEFAULT, TensorSpec
from tidegate_serving.platforms.mlflow.pyfunc import CodeFolder

ML_MODEL = """
flavors:
  python_function: {loader_module: mlflow.sklearn}
"""

MIXED = """
signature:
  inputs: '[{"type": "long"}]'
  outputs: '[{"type": "string", "name": "a"}, {"type": "long", "name": "b"}]'
"""

EXAMPLE = """
signature: {{inputs: '[{{"type": "double", "name": "x"}}]', outputs: '[{{"type": "double"}}]'}}
saved_input_example_info: {{type: dataframe, artifact_path: {}}}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mlflow")


@pytest.fixture(scope="module")
def said(models: Path) -> dict[str, Any]:
    """Rows, and what each model says of them."""
    return build(models)


@pytest.fixture(scope="module")
def client(models: Path, said: dict[str, Any]) -> Iterator[Client]:
    settings: dict[str, Any] = {"allow_unverified": True, "allow_unpublished": True, "quiet_seconds": 0.0}
    tables = {
        f"models.{name}": {"platform": "mlflow", "path": str(models / name), "versions": "all"}
        for name in ("words", "sum", "labels", "coded", "asked", "length")
    }
    with EngineProcess(models / "engine", allow_pickle=True, **settings, **tables) as engine, engine.client() as client:
        yield client


def rows(said: dict[str, Any]) -> dict[str, Any]:
    return {"size": np.array(said["size"]), "age": np.array(said["age"])}


@pytest.mark.parametrize("name", ["sklearn", "proba", "xgboost", "lightgbm", "several"])
def test_native_flavours_answer_as_mlflow_would_without_it(
    models: Path, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    version = load_unpublished(models / name / "1", "mlflow")
    signature = version.manifest.signatures[SERVING_DEFAULT]
    assert signature.inputs == (TensorSpec("size", "float64"), TensorSpec("age", "int64"))
    assert version.manifest.example == {"size": said["size"][0], "age": said["age"][0]}
    np.testing.assert_allclose(outputs(version, rows(said))["predict"], said[name], rtol=1e-6)


def test_pickles_and_pyfuncs_need_permission(models: Path, said: dict[str, Any]) -> None:
    with pytest.raises(PermissionRefused, match=r"model\.pkl is a pickle.*set allow_pickle"):
        load_unpublished(models / "pickled/1", "mlflow")
    version = load_unpublished(models / "pickled/1", "mlflow", allow_pickle=True)
    assert outputs(version, rows(said))["predict"].tolist() == said["pickled"]
    with pytest.raises(PermissionRefused, match=r"pyfunc model, which can run any code.*set allow_pickle"):
        load_unpublished(models / "words/1", "mlflow")


def test_wrappers_of_boosters_answer_with_labels(client: Client, said: dict[str, Any]) -> None:
    (change,) = client.model_status("labels")
    assert change.state is State.AVAILABLE, change.error_message
    assert client.predict("labels", rows(said)).outputs["predict"].tolist() == said["labels"]


def test_pyfunc_takes_tables_with_words(client: Client, said: dict[str, Any]) -> None:
    words = np.array([b"tide"] * len(said["size"]), dtype=object)
    answer = client.predict("words", {"size": np.array(said["size"]), "word": words}).outputs
    assert answer["twice"].tolist() == said["words"]["twice"]
    assert answer["shout"].tolist() == [word.encode() for word in said["words"]["shout"]]


HOLES = {"city": np.array([b"Oslo", b"", b"Rome", b""], object), "kind": np.array([b"", b"a", b"a", b""], object)}


def test_an_empty_text_is_missing_where_mlflow_saw_missing_ones(
    models: Path, said: dict[str, Any], client: Client
) -> None:
    native = load_unpublished(models / "holes/1", "mlflow")
    np.testing.assert_allclose(outputs(native, HOLES)["predict"], said["holes"], rtol=1e-12)
    assert client.predict("asked", HOLES).outputs["predict"].tolist() == [False, True, False, True]
    alone = {name: column[1:2] for name, column in HOLES.items()}
    np.testing.assert_allclose(outputs(native, alone)["predict"], said["holes"][1:2], rtol=1e-12)
    assert client.predict("asked", alone).outputs["predict"].tolist() == [True]


def test_pyfunc_takes_bytes(client: Client) -> None:
    sent = {"image": np.array([b"\x89PNG\xff\x00", b"abc"], object)}
    assert client.predict("length", sent).outputs["predict"].tolist() == [6, 3]


def test_pyfunc_takes_tensors(client: Client) -> None:
    block = np.arange(8, dtype="f4").reshape(2, 4)
    assert client.predict("sum", {"inputs": block}).outputs["predict"].tolist() == [6.0, 22.0]


def test_each_version_runs_the_modules_that_it_brings(client: Client, models: Path) -> None:
    size = np.array([1.0, 2.0])
    for version in (2, 1, 2):
        answer = client.predict("coded", {"size": size}, version=version).outputs["size"]
        assert answer.tolist() == (size * version**2).tolist()
    assert not list((models / "coded").glob("[12]/**/*.pyc")), "or the version's manifest would lack a file"


def test_modules_of_a_folder_are_seen_inside_and_nowhere_else(tmp_path: Path) -> None:
    own = []
    for number in (1, 2):
        (tmp_path / str(number) / "brought_pack").mkdir(parents=True)
        (tmp_path / str(number) / "brought.py").write_text(f"N = {number}")
        (tmp_path / str(number) / "brought_pack" / "inner.py").write_text(f"N = {number}")
        own.append(CodeFolder(tmp_path / str(number)))
    path, before = list(sys.path), sys.modules["json"]
    found = []
    for modules in (*own, *own):
        with modules:
            found.append((import_module("brought"), import_module("brought_pack.inner")))
        assert not {"brought", "brought_pack", "brought_pack.inner"} & sys.modules.keys()
    assert [(one.N, two.N) for one, two in found] == [(1, 1), (2, 2), (1, 1), (2, 2)]
    assert found[0] == found[2], "what was imported once stays"
    assert (sys.path, sys.modules["json"]) == (path, before)
    with pytest.raises(ModuleNotFoundError, match="brought"):
        import_module("brought")


def test_a_module_of_the_same_name_elsewhere_is_hidden_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brought.py").write_text("N = 1")
    elsewhere = ModuleType("brought")
    monkeypatch.setitem(sys.modules, "brought", elsewhere)
    with pytest.raises(ZeroDivisionError), CodeFolder(tmp_path):
        assert import_module("brought").N / 0
    assert sys.modules["brought"] is elsewhere


def test_a_published_version_may_choose_its_flavour(tmp_path: Path, models: Path, said: dict[str, Any]) -> None:
    found = discover(models / "xgboost/1", "mlflow")
    files = {path.name: path.read_bytes() for path in (models / "xgboost/1").iterdir()}
    draft = Draft("mlflow", files, found.signatures[SERVING_DEFAULT], example=dict(found.example))
    version = load_published(publish(tmp_path, "m", 1, draft))
    np.testing.assert_allclose(outputs(version, rows(said))["predict"], said["xgboost"], rtol=1e-6)
    as_pyfunc = publish(tmp_path, "m", 2, replace(draft, metadata={"mlflow.flavour": "python_function"}))
    with pytest.raises(PermissionRefused, match="pyfunc"):
        load_published(as_pyfunc)
    unknown = publish(tmp_path, "m", 3, replace(draft, metadata={"mlflow.flavour": "onnx"}))
    with pytest.raises(InvalidInput, match="no flavour 'onnx': it has python_function, xgboost"):
        load_published(unknown)


def test_a_saved_model_inside_is_discovered(tmp_path: Path, saved_models: Path) -> None:
    shutil.copytree(saved_models / "half_plus_two/1", tmp_path / "model/tf2model")
    told = "flavors:\n  tensorflow: {saved_model_dir: tf2model, model_type: tf2-module}\n  python_function: {}\n"
    (tmp_path / "model/MLmodel").write_text(told)
    assert len(discover(tmp_path, "mlflow").signatures) == 5


@pytest.mark.parametrize(
    ("files", "kind", "match"),
    [
        ({"model.pkl": ""}, NotFound, "0 files named MLmodel"),
        ({"MLmodel": "a: [", "x": ""}, InvalidInput, "MLmodel is not YAML"),
        ({"MLmodel": "a: 1"}, InvalidInput, "names no flavours"),
        ({"MLmodel": ML_MODEL}, Unsupported, "has no signature"),
        (
            {"MLmodel": "flavors: {sklearn: {pickled_model: MLmodel}}\n" + MIXED},
            Unsupported,
            "outputs a, b are texts and numbers",
        ),
        ({"MLmodel": f"{ML_MODEL}signature: {{inputs: x, outputs: x}}"}, InvalidInput, "are no JSON"),
        (
            {"MLmodel": ML_MODEL + """signature: {inputs: '[{"type": "array", "name": "x"}]', outputs: '[1]'}"""},
            Unsupported,
            "'x' of an MLflow signature is 'array'",
        ),
        (
            {"MLmodel": "flavors: {sklearn: {pickled_model: ../../model.skops}}"},
            InvalidInput,
            "lies outside its own folder",
        ),
        ({"MLmodel": ML_MODEL + EXAMPLE.format("/proc/version")}, InvalidInput, "lies outside its own folder"),
        ({"MLmodel": ML_MODEL + EXAMPLE.format("MLmodel")}, InvalidInput, "input example .*MLmodel is no JSON"),
        (
            {"MLmodel": "flavors: {python_function: {code: ../code}, sklearn: {pickled_model: model.pkl}}"},
            InvalidInput,
            "'../code', which lies outside its own folder",
        ),
    ],
)
def test_what_is_no_mlflow_model_says_why(
    tmp_path: Path, files: dict[str, str], kind: type[Exception], match: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(kind, match=match):
        discover(tmp_path, "mlflow")
