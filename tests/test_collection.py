"""Every file with tests is run by `make test`, or by `make test-extras` where its library is in no lock."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.extras import EXTRAS, PLATFORMS

TESTS = Path(__file__).parent
TEST = re.compile(r"^ *(?:async )?def test_", re.MULTILINE)
HEAVY = {"axe_playwright_python", "mlflow", "moto", "playwright"}
"""What takes half a second and more to import, and few tests use."""


RUN_BY_EXTRAS = {
    *(test for extra in EXTRAS.values() for test in extra.tests if test.startswith("tests/")),
    *re.findall(r"tests/(?:docker|flights|pipelines)/\w+\.py", (TESTS.parent / "Makefile").read_text()),
}


def test_files_with_tests_are_called_as_pytest_wants_them() -> None:
    others = (path for path in TESTS.rglob("*.py") if not path.name.startswith("test_"))
    found = {path.relative_to(TESTS.parent).as_posix() for path in others if TEST.search(path.read_text())}
    assert found - RUN_BY_EXTRAS == set()


def imported(text: str) -> set[str]:
    """Packages that a module imports as soon as it is imported itself."""
    if not re.search(rf"^(?:import|from) .*\b(?:{'|'.join(HEAVY)})\b", text, re.MULTILINE):
        return set()
    body = ast.parse(text).body
    names = [one.name for node in body if isinstance(node, ast.Import) for one in node.names]
    names += [node.module or "" for node in body if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import mlflow.artifacts as artifacts\n", {"mlflow"}),
        ("import os\nimport json, moto\n", {"moto"}),
        ("from playwright.sync_api import Page\n", {"playwright"}),
        ("from tests.support.neighbours.mlflow_server import mlflow_server\n", set()),
        ("def shown() -> None:\n    import mlflow\n", set()),
    ],
)
def test_what_a_module_imports_at_once_is_found(text: str, found: set[str]) -> None:
    assert imported(text) & HEAVY == found


def test_what_few_tests_use_is_imported_by_them_and_not_by_every_process_that_collects_tests() -> None:
    collected = [*TESTS.rglob("test_*.py"), *TESTS.rglob("conftest.py"), *(TESTS / "support").rglob("*.py")]
    heavy = {path.relative_to(TESTS).as_posix(): imported(path.read_text()) & HEAVY for path in collected}
    assert {path: found for path, found in heavy.items() if found} == {}


def test_the_extras_run_the_tests_of_every_platform_and_files_that_are_there() -> None:
    platforms = {f"{PLATFORMS}/{path.name}" for path in (TESTS.parent / PLATFORMS).iterdir() if path.is_dir()}
    assert {test for test in RUN_BY_EXTRAS if test.startswith(PLATFORMS)} == platforms - {f"{PLATFORMS}/__pycache__"}
    assert [test for test in RUN_BY_EXTRAS if not (TESTS.parent / test).exists()] == []


def test_tests_of_one_file_stay_in_one_process() -> None:
    options = ("-v", "--numprocesses=2", "--dist=loadgroup", "-p", "no:cacheprovider")
    file = TESTS / "serving" / "files" / "test_atomic.py"
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", *options, file], capture_output=True, text=True, check=True
    ).stdout
    processes = re.findall(r"^\[(gw\d)\].* PASSED ", shown, re.MULTILINE)
    assert len(processes) > 2
    assert len(set(processes)) == 1
