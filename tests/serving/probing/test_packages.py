"""What a version lacks where it is tried: packages that are not installed, and modules of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.platforms.platform import library
from tidegate_serving.probing import packages
from tidegate_serving.probing.packages import lacking, unpublished


def of_importing(statement: str, version: Path) -> tuple[str, str]:
    """What to install, and what to publish, where a model's file with this statement cannot be imported."""
    try:
        try:
            exec(statement, {"__name__": "tidegate_version_1.model", "__package__": "tidegate_version_1"})
        except Exception as error:
            raise ModelFailed("model.py cannot be imported") from error
    except ModelFailed as error:
        return lacking(error, version), unpublished(error, version)
    return "imported", "imported"


@pytest.mark.parametrize(
    ("statement", "installed_by"),
    [
        ("raise ModuleNotFoundError('gone', name='catboost.core')", "pip install catboost`"),
        ("raise ModuleNotFoundError('gone', name='imblearn')", "pip install imbalanced-learn`"),
        ("import required_by_it.parts", "pip install required_by_it`"),
        ("import required_by_it as yaml", "pip install required_by_it`"),
        (
            "try:\n    import required_by_it\nexcept ImportError:\n    raise RuntimeError('install it')",
            "pip install required_by_it`",
        ),
    ],
)
def test_a_package_that_is_not_installed_is_named(tmp_path: Path, statement: str, installed_by: str) -> None:
    (tmp_path / "requirements.txt").write_text("numpy>=2\nrequired-by-it==1.2 ; python_version > '3'\n")
    installed, published = of_importing(statement, tmp_path)
    assert installed_by in installed
    assert published == ""


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("umap", "umap-learn"),
        ("sksurv.ensemble", "scikit-survival"),
        ("surprise", "scikit-surprise"),
        ("faiss", "faiss-cpu"),
        ("pywt", "pywavelets"),
        ("river", "river"),
        ("pytorch_lightning.trainer", "pytorch_lightning"),
    ],
)
def test_a_package_that_nothing_installed_names_is_known(tmp_path: Path, module: str, package: str) -> None:
    statement = f"raise ModuleNotFoundError('gone', name={module!r})"
    installed, published = of_importing(statement, tmp_path)
    assert f"pip install {package}`" in installed
    assert published == ""


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[project]\nname = "own"\ndependencies = ["numpy>=2,<3", "required-by-it[all]>=1"]\n'),
        ("conda.yaml", "dependencies: [python=3.12, pip, {pip: [required_by_it]}]\n"),
    ],
)
def test_requirements_in_one_line_are_all_read(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    (tmp_path / "requirements.txt").mkdir()
    assert "pip install required_by_it`" in of_importing("import required_by_it", tmp_path)[0]
    assert "publish the module" in of_importing("import own", tmp_path)[1]


def test_a_package_of_another_name_than_its_module_is_told_by_the_requirements(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# what it reads\n-r more.txt\nNumPy>=1\nno.such_package==1.2\n")
    installed, published = of_importing("import no_such_module", tmp_path)
    assert "needs no_such_module" in installed
    assert "`pip install no-such-package`" in installed
    assert published == ""
    (tmp_path / "requirements.txt").write_text("numpy\n")
    assert of_importing("import no_such_module", tmp_path)[0] == ""


def test_what_something_installed_may_require_is_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other-1.dist-info").mkdir()
    (tmp_path / "other-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: other\nVersion: 1\nRequires-Dist: No.Such_Library (>=3) ; extra == 'all'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    packages._required_by_installed.cache_clear()
    version = tmp_path / "version"
    assert "pip install no_such_library`" in of_importing("import no_such_library", version)[0]
    packages._required_by_installed.cache_clear()


@pytest.mark.parametrize("statement", ["import my_features", "import my_features.days", "from my_features import day"])
def test_a_module_that_nobody_published_is_the_versions_own(tmp_path: Path, statement: str) -> None:
    (tmp_path / "requirements.txt").write_text("numpy>=2\n# my_features is ours\n")
    installed, published = of_importing(statement, tmp_path)
    assert installed == ""
    assert "needs the module my_features" in published
    assert "publish the module with it" in published


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
    assert of_importing(statement, tmp_path) == ("", "")
