"""`import tidegate`: light, complete, and lazy."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib import metadata

import pytest

import tidegate
from tidegate_operators import steps
from tidegate_serving.client import Client

LIGHT = """
import json, sys, time
started = time.process_time()
import tidegate
seconds = time.process_time() - started
heavy = ("numpy", "pandas", "pyarrow", "grpc", "duckdb", "airflow", "tidegate_native", "tidegate_serving")
print(json.dumps({"seconds": seconds, "loaded": sorted(set(heavy) & set(sys.modules)), "listed": dir(tidegate)}))
"""


def fresh(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout


def test_importing_it_is_quick_and_brings_nothing_heavy() -> None:
    """Of processor time: other tests run meanwhile."""
    tries = [json.loads(fresh(LIGHT)) for _ in range(3)]
    found = tries[0]
    assert found["loaded"] == []
    assert min(one["seconds"] for one in tries) < 0.5
    assert {*tidegate.__all__, "airflow", "kfp"} == set(found["listed"])


def test_every_name_is_there_and_is_the_one_from_its_home() -> None:
    assert sorted(tidegate.__all__) == list(tidegate.__all__)
    missing = [name for name in tidegate.__all__ if not hasattr(tidegate, name)]
    assert missing == []
    assert tidegate.Client is Client
    assert tidegate.publish is steps.publish


def test_it_says_its_version() -> None:
    assert tidegate.__version__ == metadata.version("tidegate")


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(tidegate, "frobnicate")


def test_operators_are_reached_as_attributes_and_by_import() -> None:
    code = "import tidegate\nfrom tidegate.airflow import ServeModelOperator as a\nprint(a is tidegate.airflow.{})"
    assert fresh(code.format("ServeModelOperator")).splitlines()[-1] == "True"


@pytest.mark.parametrize("package", ["airflow", "kfp"])
def test_operators_name_the_extra_that_they_lack(package: str) -> None:
    code = f"""
import sys
sys.modules[{package!r}] = None
try:
    import tidegate.{package}
except ImportError as error:
    print(error)
"""
    assert f"`pip install 'tidegate[{package}]'`" in fresh(code)


def test_the_endpoints_of_packages_offer_what_they_say() -> None:
    for package in ("tidegate_operators.steps", "tidegate_pipelines.cli"):
        module = importlib.import_module(package)
        assert all(hasattr(module, name) for name in module.__all__)
