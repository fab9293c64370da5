"""What a version lacks where it is tried: packages that are not installed, and no module of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.platforms.platform import library
from tidegate_serving.probing.packages import lacking


def of_importing(statement: str, version: Path) -> str:
    """What the words are where a model's file with this statement cannot be imported."""
    try:
        try:
            exec(statement, {"__name__": "tidegate_version_1.model", "__package__": "tidegate_version_1"})
        except Exception as error:
            raise ModelFailed("model.py cannot be imported") from error
    except ModelFailed as error:
        return lacking(error, version)
    return "imported"


@pytest.mark.parametrize(
    ("statement", "installed_by"),
    [
        ("import no_such_library.parts", "pip install no_such_library`"),
        ("raise ModuleNotFoundError('gone', name='xgboost_of_nobody')", "pip install xgboost_of_nobody`"),
        ("import no_such_library as yaml", "pip install no_such_library`"),
        (
            "try:\n    import no_such_library\nexcept ImportError:\n    raise RuntimeError('install it')",
            "pip install no_such_library`",
        ),
    ],
)
def test_a_package_that_is_not_installed_is_named(tmp_path: Path, statement: str, installed_by: str) -> None:
    assert installed_by in of_importing(statement, tmp_path)


def test_the_extra_of_a_platform_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(TidegateError) as caught, library("onnxruntime", "onnx"):
        import onnxruntime  # noqa: F401
    said = lacking(caught.value, tmp_path)
    assert (
        said == "needs onnxruntime, which is not installed where it is judged: run `pip install 'tidegate[onnx]'` there"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "import features",
        "import features.days",
        "import numpy.no_such_part",
        "from numpy import no_such_name",
        "raise ModuleNotFoundError('no part', name='tidegate_version_1.days')",
        "raise ValueError('of a model')",
        "raise ModuleNotFoundError('of a model', name=5)",
        "one, other = ValueError('one'), ValueError('other')\none.__cause__, other.__cause__ = other, one\nraise one",
        "try:\n    import no_such_library\nexcept ImportError:\n    pass\nopen('/no/such/file')",
        "try:\n    import no_such_library\nexcept ImportError:\n    raise ValueError('mine') from None",
    ],
)
def test_modules_of_its_own_and_other_faults_are_the_versions(tmp_path: Path, statement: str) -> None:
    (tmp_path / "code" / "features").mkdir(parents=True)
    assert of_importing(statement, tmp_path) == ""
