"""`tidegate demo` as the command line finds it: through its entry point, with or without the extra."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from tests.support.command import Command

from tidegate_flights import releases
from tidegate_flights.command import demo
from tidegate_flights.options import DemoOptions
from tidegate_serving.contract.errors import NotFound


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def test_the_distribution_offers_it() -> None:
    (entry,) = metadata.entry_points(group="tidegate.commands", name="demo")
    assert entry.load() is demo


def test_its_options_reach_the_demo_and_its_result_is_the_exit_status(
    tidegate: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[DemoOptions] = []

    def run(options: DemoOptions) -> int:
        told.append(options)
        return 1

    monkeypatch.setattr("tidegate_flights.demo.run_demo", run)
    done = tidegate("demo", "--mistake", "unit", "--folder", tmp_path / "demo", "--keep", "--skew-factor", "2")
    assert done.returncode == 1
    assert told == [DemoOptions(mistake="unit", folder=tmp_path / "demo", keep=True, skew_factor=2.0)]


def test_without_the_extra_it_says_what_to_install(tidegate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("airflow", "skops") else there(name))
    done = tidegate("demo")
    assert done.returncode == 2
    assert done.stderr == "tidegate: the demo needs airflow, skops: run `pip install 'tidegate[demo]'`\n"


def test_its_help_needs_nothing_of_the_extra() -> None:
    code = (
        "import sys; from tidegate_flights import command; "
        "print([name for name in ('airflow', 'numpy', 'onnxruntime', 'pandas', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_the_dag_is_found_in_a_checkout_and_in_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = Path(__file__).resolve().parents[2]
    assert releases.dag_file() == checkout / "dags" / "flights_release.py"
    package = tmp_path / "site-packages" / "tidegate_flights"
    (package / "dags").mkdir(parents=True)
    monkeypatch.setattr(releases, "__file__", str(package / "releases.py"))
    with pytest.raises(NotFound, match=r"flights_release\.py is neither in"):
        releases.dag_file()
    (package / "dags" / "flights_release.py").touch()
    assert releases.dag_file() == package / "dags" / "flights_release.py"
