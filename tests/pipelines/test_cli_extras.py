"""Commands where an extra is not installed: they name the package and the extra, and call it no fault of Tidegate."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate
from tidegate_serving.contract.errors import Unsupported


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("uvicorn", ("hub",), "hub"),
        ("duckdb", ("skew", "a.csv", "a.csv"), "validate"),
        ("pyarrow", ("log", "retain", ".", "--days", "1"), "validate"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(
    tmp_path: Path, package: str, arguments: tuple[str, ...], extra: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    (tmp_path / "a.csv").write_text("x\n1\n")
    done = subprocess.run(
        [sys.executable, "-m", "tidegate_pipelines.cli", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert package in done.stderr
    assert f"`pip install 'tidegate[{extra}]'`" in done.stderr


def test_a_program_hears_which_extra_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(Unsupported, match=r"tidegate\[validate\]"):
        tidegate.skew(tmp_path / "a.csv", tmp_path / "a.csv")
