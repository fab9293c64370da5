"""What Airflow's own processes read of us: the provider, the connection form, and DAG files that stay light."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import at_best

from tidegate_operators.airflow.provider import get_provider_info
from tidegate_operators.steps import Evidence, Publication, canary, promote, push, rollback, skew_of_log
from tidegate_operators.steps.export import Export
from tidegate_operators.steps.mlflow_registry import publish_registered
from tidegate_serving.admission import key_id, load_private_key, make_keys

ROOT = Path(__file__).resolve().parents[3]
DAGS = sorted((ROOT / "dags").glob("*.py"))
HEAVY = ("numpy", "pandas", "pyarrow", "duckdb", "grpc", "sklearn", "onnxruntime", "tidegate_native")

READ = """
import json, runpy, sys
from airflow.sdk import DAG
found = [value for value in runpy.run_path(sys.argv[1]).values() if isinstance(value, DAG)]
ours = [name for name in sys.modules if name.startswith(("tidegate_validation", "tidegate_operators.steps"))]
engine = [name for name in sys.modules if name.startswith("tidegate_serving") and ".contract" not in name]
print(json.dumps({
    "loaded": sorted(set(sys.modules) & set(sys.argv[2:])) + ours + [name for name in engine if "." in name],
    "tasks": {task.task_id: type(task).__name__ for dag in found for task in dag.tasks},
    "order": [[task.task_id, sorted(task.downstream_task_ids)] for dag in found for task in dag.topological_sort()],
    "params": sorted(found[0].params) if found else [],
    "retries": [task.retries for dag in found for task in dag.tasks],
}))
"""


def python(code: str, *arguments: str, home: Path, **variables: str) -> str:
    """What a fresh interpreter prints, with an Airflow home of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**environment, "AIRFLOW_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("airflow")
    found: dict[str, Any] = json.loads(python(READ, str(ROOT / "dags" / "flights_release.py"), *HEAVY, home=home))
    return found


def test_a_dag_file_parses_without_numpy_engine_or_network(parsed: dict[str, Any]) -> None:
    assert parsed["loaded"] == []


PARSE = """
import airflow.sdk, json, runpy, sys, time
before, began = set(sys.modules), time.process_time()
files = sys.argv[1].split(",")
dags = [[name for name, value in runpy.run_path(file).items() if isinstance(value, airflow.sdk.DAG)] for file in files]
import tidegate.airflow
print(json.dumps({"seconds": time.process_time() - began, "new": sorted(set(sys.modules) - before), "dags": dags}))
"""


def test_all_dag_files_and_operators_cost_little_beyond_airflow_itself(tmp_path: Path) -> None:
    def costs_little() -> bool:
        found = json.loads(python(PARSE, ",".join(map(str, DAGS)), home=tmp_path))
        assert len(found["dags"]) == 4
        assert all(found["dags"])
        assert sorted(set(found["new"]) & {*HEAVY, "fastapi", "mlflow", "sqlalchemy"}) == []
        return bool(found["seconds"] < 1.0)

    # Of processor time, in one of three tries: what shares the core makes each second of it worth less.
    assert at_best(3, costs_little)


def test_the_release_is_four_operators_in_a_row(parsed: dict[str, Any]) -> None:
    assert parsed["tasks"] == {
        "validate": "ValidateModelOperator",
        "serve": "ServeModelOperator",
        "canary": "CanaryOperator",
        "promote": "PromoteOperator",
    }
    assert [name for name, _ in parsed["order"]] == ["validate", "serve", "canary", "promote"]
    assert {"directory", "held_out", "private_key"} <= set(parsed["params"])


def test_dag_files_are_twenty_lines_at_most() -> None:
    assert DAGS
    assert {
        path.name: len(path.read_text().splitlines()) for path in DAGS if len(path.read_text().splitlines()) > 20
    } == {}


def test_airflow_finds_the_provider_by_its_entry_point() -> None:
    (entry,) = [
        entry for entry in metadata.entry_points(group="apache_airflow_provider") if entry.module.startswith("tidegate")
    ]
    assert entry.load() is get_provider_info
    assert get_provider_info()["versions"] == [metadata.version("tidegate")]


LOOK = """
import inspect, json, os, sys
from types import SimpleNamespace
from airflow.providers_manager import ProvidersManager
from tidegate import airflow
from tidegate_serving.contract.errors import TidegateError
from tidegate_operators.airflow.fields import given
from tidegate_operators.airflow.operators.export import EXPORT
from tidegate_operators.airflow.operators.publish import PUBLICATION
from tidegate_operators.airflow.operators.validate import EVIDENCE

def why(ask):
    try:
        ask()
    except TidegateError as error:
        return error.message

def handed_on(names, **rendered):
    return given(SimpleNamespace(**{**dict.fromkeys(names, "said"), **rendered}), names)

os.environ["AIRFLOW_CONN_TIDEGATE_DEFAULT"] = '{"conn_type": "tidegate", "host": "engine", "port": 9}'
os.environ["AIRFLOW_CONN_BARE"] = '{"conn_type": "tidegate"}'
os.environ["AIRFLOW_CONN_GROUP"] = '{"conn_type": "tidegate", "host": "a,b:9, [::1]:7", "port": 8}'
extra = {"tls": True, "ca": "/etc/ca.pem", "certificate": "/c.pem", "key": "/k.pem", "server_name": "engine"}
tls = {"conn_type": "tidegate", "host": "far", "password": "secret", "extra": extra}
os.environ["AIRFLOW_CONN_TLS"] = json.dumps(tls)
os.environ["AIRFLOW_CONN_OPEN_TOKEN"] = json.dumps({**tls, "extra": {}})
os.environ["AIRFLOW_CONN_UNKNOWN_EXTRA"] = json.dumps({**tls, "extra": {"tsl": True}})
os.environ["AIRFLOW_CONN_NOTHING"] = '{"conn_type": "tidegate_signing"}'
os.environ["AIRFLOW_CONN_NO_PEM"] = '{"conn_type": "tidegate_signing", "password": "secret"}'
os.environ["AIRFLOW_CONN_PEM"] = json.dumps({"conn_type": "tidegate_signing", "password": sys.argv[1]})
os.environ["AIRFLOW_CONN_NOBODY"] = '{"conn_type": "tidegate", "host": "127.0.0.1", "port": 1}'
manager = ProvidersManager()
form = manager.hooks["tidegate"]
made = {
    name: kind(task_id="t", **{field: "1" for field in kind.template_fields if field not in ("verdict", "rule")})
    for name, kind in vars(airflow).items()
    if name.endswith(("Operator", "Sensor"))
}
print(json.dumps({
    "form": [form.hook_class_name, form.hook_name, form.package_name],
    "links": sorted(name for name in manager.extra_links_class_names if "tidegate" in name),
    "engines": {name: repr(airflow.TidegateHook(name).engine) for name in ("tidegate_default", "bare", "group", "tls")},
    "refused": {name: why(lambda: airflow.TidegateHook(name).engine) for name in ("open_token", "unknown_extra")},
    "signing": {name: why(lambda: airflow.SigningHook(name).get_conn()) for name in ("nothing", "no_pem")},
    "tested_key": airflow.SigningHook("pem").test_connection(),
    "forms": {kind: sorted(name.partition("__")[2].partition("__")[2] for name in manager.connection_form_widgets
                           if name.startswith(f"extra__{kind}__")) for kind in ("tidegate", "tidegate_signing")},
    "report_links": [
        airflow.VerdictReportLink().get_link(SimpleNamespace(directory=named, report_url=url), ti_key=None)
        for named in ("/models/a b/2", {"directory": "/models/a b/2"}, None, "s3://bucket/a b/2")
        for url in (None, "https://reports.example.com/models/")
    ],
    "asset": str(airflow.skew_asset("flights").uri),
    "test": airflow.TidegateHook("nobody").test_connection(),
    "fields": {name: [field for field in operator.template_fields if not hasattr(operator, field)]
               for name, operator in made.items()},
    "arguments": {name: sorted(set(inspect.signature(kind.__init__).parameters) - {"self", "kwargs"})
                  for name, kind in vars(airflow).items() if name.endswith("Operator")},
    "handed_on": {"ValidateModelOperator": handed_on(EVIDENCE),
                  "PublishModelOperator": handed_on(PUBLICATION),
                  "ExportModelOperator": handed_on(EXPORT)},
    "modes": [airflow.CanaryOperator(task_id="t", directory="d", mode=mode, rule=rule).wanted().mode
              for mode in ("", "traffic", "shadow") for rule in (None, {"mode": "traffic"})],
    "left_empty": handed_on(EVIDENCE, policy="", label_column=None),
    "templated": {name: sorted(operator.template_fields) for name, operator in made.items()},
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("airflow")
    make_keys(folder / "v.key", folder / "v.pub")
    found: dict[str, Any] = json.loads(python(LOOK, (folder / "v.key").read_text(), home=folder))
    found["key"] = key_id(load_private_key(folder / "v.key").public_key())
    return found


def test_airflow_offers_the_connection_type_and_the_link(seen: dict[str, Any]) -> None:
    assert seen["form"] == ["tidegate_operators.airflow.hook.TidegateHook", "Tidegate", "tidegate"]
    assert seen["links"] == [f"tidegate_operators.airflow.links.{kind}ReportLink" for kind in ("Skew", "Verdict")]


def test_the_connection_forms_have_a_field_for_all_that_a_connection_takes(seen: dict[str, Any]) -> None:
    assert seen["forms"]["tidegate"] == ["ca", "certificate", "key", "server_name", "tls"]
    assert seen["forms"]["tidegate_signing"] == ["ca", "namespace", "transit_key", "transit_mount"]


def test_a_connection_is_an_engines_or_a_groups(seen: dict[str, Any]) -> None:
    engines = seen["engines"]
    assert "addresses=('engine:9',), tls=False" in engines["tidegate_default"]
    assert "addresses=('127.0.0.1:8502',)" in engines["bare"]
    assert "addresses=('a:8', 'b:9', '[::1]:7')" in engines["group"]
    for part in ("('far:8502',), tls=True", "'/etc/ca.pem'", "'/c.pem'", "'/k.pem'", "server_name='engine'"):
        assert part in engines["tls"]
    assert "secret" not in engines["tls"]


def test_a_connection_that_cannot_be_used_is_named_with_its_fault(seen: dict[str, Any]) -> None:
    assert "connection 'open_token'" in seen["refused"]["open_token"]
    assert "TLS" in seen["refused"]["open_token"]
    assert "'tsl' in its extra: it takes tls" in seen["refused"]["unknown_extra"]
    assert "'nothing' holds no key" in seen["signing"]["nothing"]
    assert "'no_pem' is no PEM private key" in seen["signing"]["no_pem"]
    assert "secret" not in str(seen["refused"]) + str(seen["signing"])


def test_a_signing_connection_tells_whose_key_it_is(seen: dict[str, Any]) -> None:
    signs, sentence = seen["tested_key"]
    assert signs
    assert seen["key"] in sentence


def test_a_report_is_linked_below_the_address_that_the_operator_names(seen: dict[str, Any]) -> None:
    on_disk, below = "file:///models/a%20b/2.report/index.html", "https://reports.example.com/models/a%20b/2.report"
    in_a_store = ["", f"{below}/index.html"]
    assert seen["report_links"] == [on_disk, f"{below}/index.html"] * 2 + ["", ""] + in_a_store


def test_an_assets_address_names_connection_and_servable(seen: dict[str, Any]) -> None:
    assert seen["asset"] == "tidegate://tidegate_default/flights/skew"


def test_testing_a_connection_says_why_it_fails(seen: dict[str, Any]) -> None:
    answered, why = seen["test"]
    assert not answered
    assert "127.0.0.1:1" in why


def test_every_operator_can_be_made_and_has_all_of_its_template_fields(seen: dict[str, Any]) -> None:
    assert len(seen["fields"]) == 11
    assert all(missing == [] for missing in seen["fields"].values())


@pytest.mark.parametrize(
    ("operator", "request_type", "own"),
    [
        (
            "ValidateModelOperator",
            Evidence,
            {"directory", "private_key", "signing_conn_id", "report_url", "store", "tidegate_conn_id"},
        ),
        ("PublishModelOperator", Publication, {"store"}),
        ("ExportModelOperator", Export, {"directory", "trusted", "policy"}),
    ],
)
def test_an_operators_arguments_are_the_fields_of_what_it_hands_on(
    seen: dict[str, Any], operator: str, request_type: type, own: set[str]
) -> None:
    names = {one.name for one in fields(request_type)}
    assert set(seen["handed_on"][operator]) == names
    ours = {"label_column" if name == "label" else name for name in names}  # a task of Airflow's has a label already
    assert set(seen["arguments"][operator]) == own | ours
    assert seen["templated"][operator] == seen["arguments"][operator]


def test_what_a_template_leaves_empty_keeps_its_default(seen: dict[str, Any]) -> None:
    assert {one.name for one in fields(Evidence)} - set(seen["left_empty"]) == {"policy", "label"}


def test_a_canarys_mode_is_the_operators_else_the_rules_else_shadow(seen: dict[str, Any]) -> None:
    assert seen["modes"] == ["shadow", "traffic", "traffic", "traffic", "shadow", "shadow"]


STEPS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "PublishRegisteredOperator": (
        publish_registered,
        {"repository", "training", "sample", "label_column", "event_time", "servable", "store"},
    ),
    "ServeModelOperator": (push, {"directory", "verdict", "store", "timeout_seconds", "requested_by", "reason"}),
    "PromoteOperator": (promote, {"directory", "timeout_seconds", "keep_previous", "requested_by", "reason"}),
    "RollbackOperator": (
        rollback,
        {"servable", "version", "from_version", "timeout_seconds", "requested_by", "reason"},
    ),
    "SkewReportOperator": (
        skew_of_log,
        {"directory", "log_root", "since", "until", "received_since", "report", "watch", "windows_per_alarm"}
        | {"previous", "labels"},
    ),
    "CanaryOperator": (canary, {"directory", "mode", "rule"}),
}
OF_THE_OPERATOR = {"control", "timeout", "once", "progress", "check", "judged_against", "registered"}
"""What the operator says itself, or under another name: the engine by its connection, timeout in seconds, and what the
version was judged against by the output of the task that validated, a registered version by its fields."""


@pytest.mark.parametrize("operator", STEPS)
def test_every_parameter_of_a_step_is_reached_and_templated(seen: dict[str, Any], operator: str) -> None:
    step, reached = STEPS[operator]
    wanted = set(inspect.signature(step).parameters) - OF_THE_OPERATOR
    wanted = {"label_column" if name == "label" else name for name in wanted}
    if "directory" in reached:
        wanted -= {"servable", "version"}  # they are in the directory's manifest
    assert wanted <= reached
    assert reached <= set(seen["templated"][operator])
