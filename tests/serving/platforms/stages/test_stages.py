"""Versions of several models: what goes from stage to stage, what a version is called by, what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.contract.model_files import recognised_platform
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.platforms.loader import Servable, ask
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.registry import installed_platforms

MODEL = """
import numpy as np
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.platforms.loader import Answer

class Model:
    def predict(self, inputs):
        {0}
"""
LENGTHS = """
        lengths = np.array([len(text) for text in inputs["text"]], np.float32)
        errors = {int(row): InvalidInput("no text") for row in np.flatnonzero(lengths == 0)}
        return Answer({"n": lengths}, errors)
"""
WEIGHTED = "assert len(inputs['x']) <= 3, len(inputs['x'])\n        return {'y': inputs['x'] * inputs['weight']}"
ADDED = "return {'sum': inputs['a'] + inputs['b']}"


def spec(name: str, dtype: str = "float32", *inner: int) -> dict[str, Any]:
    return TensorSpec(name, dtype, (-1, *inner)).to_dict()


def described(inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"inputs": inputs, "outputs": outputs}


def chain() -> list[dict[str, Any]]:
    """Text to its length, that times a weight of the request in threes, and both added."""
    lengths = {"name": "lengths", "platform": "python", "signature": described([spec("text", "string")], [spec("n")])}
    weighted = {
        "name": "weighted",
        "platform": "python",
        "folder": "models/weighted",
        "takes": {"x": "n"},
        "signature": described([spec("x"), spec("weight")], [spec("y")]),
        "max_batch_rows": 3,
    }
    added = {
        "name": "added",
        "platform": "python",
        "takes": {"a": "n", "b": "y"},
        "gives": {"sum": "score"},
        "signature": described([spec("a"), spec("b")], [spec("sum")]),
    }
    return [lengths, weighted, added]


def version(
    folder: Path,
    stages: list[dict[str, Any]],
    signatures: Mapping[str, Signature] | None = None,
    **more: Any,
) -> tuple[Path, Manifest]:
    files = {
        "lengths/model.py": MODEL.format(LENGTHS.strip()),
        "models/weighted/model.py": MODEL.format(WEIGHTED),
        "added/model.py": MODEL.format(ADDED),
        "stages.json": json.dumps({"stages": stages, **more}),
    }
    directory = publish(folder, "m", 1, Draft("stages", files, signatures=signatures or {}, example={}))
    return directory, read_manifest(directory)[0]


def loaded(folder: Path, stages: list[dict[str, Any]], **more: Any) -> Servable:
    directory, manifest = version(folder, stages, **more)
    registry = installed_platforms(PlatformOptions())
    return registry.load(directory, registry.discover(directory, manifest).complete(manifest))


def discovered(folder: Path, stages: list[dict[str, Any]], **more: Any) -> Signature:
    directory, manifest = version(folder, stages, **more)
    return installed_platforms(PlatformOptions()).discover(directory, manifest).signatures[SERVING_DEFAULT]


def asked(servable: Servable, *texts: bytes) -> Any:
    inputs = {"text": np.array(texts, object), "weight": np.full(len(texts), 10, np.float32)}
    return ask(servable, SERVING_DEFAULT, inputs)


def test_a_request_goes_through_all_stages(tmp_path: Path) -> None:
    answer = asked(loaded(tmp_path, chain()), b"a", b"four", b"", b"sixsix", b"fives", b"seven..")
    good = [0, 1, 3, 4, 5]
    assert answer.outputs["score"][good].tolist() == [11, 44, 66, 55, 77]
    assert {row: error.message for row, error in answer.errors.items()} == {2: "stage 'lengths': no text"}


def test_a_batch_of_refused_rows_is_answered_row_by_row(tmp_path: Path) -> None:
    answer = asked(loaded(tmp_path, chain()), b"", b"")
    assert answer.outputs["score"].shape == (2,)
    assert {row: type(error) for row, error in answer.errors.items()} == {0: InvalidInput, 1: InvalidInput}


def test_the_signature_is_what_the_stages_leave_open(tmp_path: Path) -> None:
    found = discovered(tmp_path, chain())
    assert [(one.name, one.dtype) for one in found.inputs] == [("text", "string"), ("weight", "float32")]
    assert [one.name for one in found.outputs] == ["score"]


def test_outputs_of_any_stage_may_be_the_answer(tmp_path: Path) -> None:
    assert [one.name for one in discovered(tmp_path / "a", chain(), outputs=["score", "n"]).outputs] == ["score", "n"]
    answer = asked(loaded(tmp_path / "b", chain(), outputs=["score", "n"]), b"a", b"bb")
    assert {name: array.tolist() for name, array in answer.outputs.items()} == {"score": [11, 22], "n": [1, 2]}
    with pytest.raises(InvalidInput, match="no stage gives output 'nothing': they give n, y, score"):
        discovered(tmp_path / "c", chain(), outputs=["nothing"])


def test_what_a_stage_raises_names_it(tmp_path: Path) -> None:
    stages = chain()
    stages[1]["max_batch_rows"] = 4
    with pytest.raises(ModelFailed, match="stage 'weighted': the model raised AssertionError: 4"):
        asked(loaded(tmp_path, stages), b"a", b"b", b"c", b"d")


def changed(stage: int, **changes: Any) -> list[dict[str, Any]]:
    stages = chain()
    stages[stage].update(changes)
    return stages


@pytest.mark.parametrize(
    ("stages", "why"),
    [
        ([], "needs stages with names of their own"),
        (changed(1, name="added"), "needs stages with names of their own"),
        (changed(1, folder="../elsewhere"), "stage 'weighted' has folder '../elsewhere': name one inside the version"),
        (changed(1, folder="empty"), "stage 'weighted' of m:1 has no files: put them into folder 'empty'"),
        (changed(1, platform="stages"), "stage 'weighted' has stages itself"),
        (changed(1, platform="fortran"), "platform 'fortran' is unknown here"),
        (changed(1, worker=2), "stage 'weighted' has a key 'worker': use folder, gives"),
        (changed(1, workers=0), "stage 'weighted' has workers 0: use a whole number from 1 on"),
        (changed(1, takes={"z": "n"}), "takes of stage 'weighted' names 'z', which its signature has not: x, weight"),
        (
            changed(1, signature=described([spec("x", "int64"), spec("weight")], [spec("y")])),
            r"takes 'x' as int64 \[-1\], but stage 'lengths' gives float32 \[-1\]: let one of them change",
        ),
        (
            changed(2, signature=described([spec("a"), spec("b", "float32", 2)], [spec("sum")])),
            r"takes 'b' as float32 \[-1, 2\], but stage 'weighted' gives float32 \[-1\]",
        ),
        (
            changed(2, takes={"a": "text", "b": "y"}),
            r"takes 'a' as float32 \[-1\], but the request gives string \[-1\]",
        ),
    ],
)
def test_stages_that_do_not_fit_are_refused_by_name(tmp_path: Path, stages: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(Exception, match=why) as refused:
        discovered(tmp_path, stages)
    assert type(refused.value).__module__ == "tidegate_serving.contract.errors"


def test_a_manifest_that_says_something_else_is_refused(tmp_path: Path) -> None:
    told = Signature((TensorSpec("text", "string"),), (TensorSpec("score", "float32"),))
    directory, manifest = version(tmp_path / "a", chain(), {SERVING_DEFAULT: told})
    with pytest.raises(InvalidInput, match=r"m:1 takes no 'weight', which stage weighted needs"):
        installed_platforms(PlatformOptions()).load(directory, manifest)
    both = (*told.inputs, TensorSpec("weight", "float32"))
    directory, manifest = version(
        tmp_path / "b", chain(), {SERVING_DEFAULT: Signature(both, (TensorSpec("rank", "float32"),))}
    )
    with pytest.raises(InvalidInput, match=r"m:1 answers 'rank', which its stages do not: see stages\.json"):
        installed_platforms(PlatformOptions()).load(directory, manifest)


def test_stages_are_recognised_by_their_file(tmp_path: Path) -> None:
    assert recognised_platform(version(tmp_path, chain())[0]) == "stages"
