"""What a Kubeflow cluster is given: the components' interfaces, their image, and the YAML that the package carries."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from kfp import compiler

from tidegate_operators import steps
from tidegate_operators.kfp.components import compiled_component, container_components, local_components
from tidegate_operators.kfp.image import released_image
from tidegate_operators.kfp.tasks import TASKS
from tidegate_operators.steps import export, mlflow_registry
from tidegate_serving.contract.errors import InvalidInput

NAMES = tuple(TASKS)


@pytest.fixture(autouse=True)
def no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_IMAGE", raising=False)


def test_every_component_has_a_task_and_both_kinds_take_and_make_the_same() -> None:
    containers, locals_ = container_components().all(), local_components().all()
    assert set(containers) == set(locals_) == set(NAMES)
    for name in NAMES:
        one, other = containers[name].component_spec, locals_[name].component_spec
        assert (one.inputs, one.outputs, one.description) == (other.inputs, other.outputs, other.description)


@pytest.mark.parametrize("name", NAMES)
def test_the_packages_component_is_what_the_code_compiles(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.yaml"
    compiler.Compiler().compile(container_components().all()[name], str(file))
    packaged = resources.files("tidegate_operators.kfp") / "compiled" / f"{name}.yaml"
    cure = "run `tidegate kubeflow compile components -o operators/tidegate_operators/kfp/compiled`"
    assert packaged.read_text() == file.read_text(), cure
    assert compiled_component(name).component_spec.name == name.replace("_", "-")


def test_an_unknown_component_is_named() -> None:
    with pytest.raises(InvalidInput, match="component 'serve' is unknown: use one of to_path, publish"):
        compiled_component("serve")


def parameters(step: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(step).parameters) - {"progress", "check"}


@pytest.mark.parametrize(
    ("name", "wanted", "renamed"),
    [
        ("publish", {one.name for one in fields(steps.Publication)}, {}),
        ("publish_registered", parameters(mlflow_registry.publish_registered) | {"uri", "name", "version"}, {}),
        ("validate", parameters(steps.validate) | {one.name for one in fields(steps.Evidence)}, {}),
        ("push", parameters(steps.push), {"verdict": "verdict_digest"}),
        ("canary", parameters(steps.canary), {}),
        ("promote", parameters(steps.promote), {}),
        ("rollback", parameters(steps.rollback), {}),
        ("skew", parameters(steps.skew_of_log), {}),
        ("export", parameters(export.export) - {"to"} | {one.name for one in fields(export.Export)}, {}),
    ],
)
def test_every_parameter_of_a_step_is_an_argument(name: str, wanted: set[str], renamed: dict[str, str]) -> None:
    spec = container_components().all()[name].component_spec
    made_elsewhere = {"evidence", "registered", "report"}
    assert {renamed.get(one, one) for one in wanted} - made_elsewhere <= set(spec.inputs)


def test_the_image_is_the_releases_unless_somebody_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def image(component: Any) -> str:
        return str(component.component_spec.implementation.container.image)

    assert image(container_components().push) == released_image()
    monkeypatch.setenv("TIDEGATE_IMAGE", "here/steps:2")
    assert image(container_components().push) == "here/steps:2"
    assert image(container_components("there/steps:3").push) == "there/steps:3"


LIGHT = """
import json, sys
import tidegate.kfp
heavy = ("numpy", "pandas", "pyarrow", "grpc", "duckdb", "airflow", "mlflow", "tidegate_native", "tidegate_validation")
print(json.dumps(sorted(set(heavy) & set(sys.modules))))
"""


def test_importing_components_and_pipelines_brings_no_engine_and_no_data_library() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
