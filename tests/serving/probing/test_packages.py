"""What a version lacks where it is tried: packages that are not installed, or modules of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.platforms.platform import library
from tidegate_serving.probing import packages
from tidegate_serving.probing.packages import lacking


def of_importing(statement: str, version: Path) -> str:
    """What to install or to publish, where a model's file with this statement cannot be imported."""
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
    said = of_importing(statement, tmp_path)
    assert installed_by in said
    assert "publish" not in said


@pytest.mark.parametrize(
    ("module", "package"),
    [("umap", "umap-learn"), ("sksurv.ensemble", "scikit-survival"), ("faiss", "faiss-cpu"), ("pywt", "pywavelets")],
)
def test_a_package_of_another_name_than_its_module_is_known(tmp_path: Path, module: str, package: str) -> None:
    said = of_importing(f"raise ModuleNotFoundError('gone', name={module!r})", tmp_path)
    assert f"pip install {package}`" in said
    assert "publish" not in said


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
    assert "pip install required_by_it`" in of_importing("import required_by_it", tmp_path)
    assert "if it is yours, publish it" in of_importing("import own", tmp_path)


def test_a_package_of_another_name_than_its_module_is_told_by_the_requirements(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# what it reads\n-r more.txt\nNumPy>=1\nno.such_package==1.2\n")
    said = of_importing("import no_such_module", tmp_path)
    assert "needs no_such_module" in said
    assert "`pip install no-such-package`" in said
    assert "if no_such_module is yours, publish it with the version" in said
    (tmp_path / "requirements.txt").write_text("numpy\n")
    assert "`pip install no_such_module`" in of_importing("import no_such_module", tmp_path)


def test_an_address_among_the_requirements_is_no_name_of_a_package(tmp_path: Path) -> None:
    """Whoever has a package called git at the index would be installed."""
    (tmp_path / "requirements.txt").write_text(
        "git+https://example.com/own.git@v1\nhttps://example.com/own.zip\nNumPy\n"
    )
    said = of_importing("import no_such_module", tmp_path)
    assert "`pip install no_such_module`" in said
    assert "pip install git" not in said
    (tmp_path / "requirements.txt").write_text("no_such_package @ git+https://example.com/own.git\n")
    assert "`pip install no-such-package`" in of_importing("import no_such_module", tmp_path)


def test_what_something_installed_may_require_is_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other-1.dist-info").mkdir()
    (tmp_path / "other-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: other\nVersion: 1\nRequires-Dist: No.Such_Library (>=3) ; extra == 'all'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    packages._required_by_installed.cache_clear()
    version = tmp_path / "version"
    assert "pip install no_such_library`" in of_importing("import no_such_library", version)
    packages._required_by_installed.cache_clear()


@pytest.mark.parametrize("statement", ["import NAME", "import NAME.days", "from NAME import day"])
@pytest.mark.parametrize("name", ["my_features", "river"])
def test_of_what_may_be_a_package_or_the_versions_own_both_cures_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, name: str
) -> None:
    monkeypatch.setattr(packages, "_required_by_installed", frozenset)
    (tmp_path / "requirements.txt").write_text("numpy>=2\n# my_features is ours, river is not\n")
    said = of_importing(statement.replace("NAME", name), tmp_path)
    assert said.startswith(
        f"needs the module {name}, which is neither among its files nor installed where it is judged"
    )
    assert "if it is yours, publish it with the version (a Python model has it beside itself and writes " in said
    assert f"if it is a package, run `pip install {name}` there, and where it is to serve" in said


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
