"""Which files under the configured roots Airflow's API server gives out, and to whom; Airflow itself is not started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.operators.airflow.test_parsing import python
from tests.support.release.world import NONSENSE, Endpoints, World

ASK = """
import json, os, sys
from pathlib import Path
from types import SimpleNamespace
root = Path(sys.argv[1])
os.environ["AIRFLOW__TIDEGATE__REPORT_ROOTS"] = f"{root}/models, {root}/skew"
os.environ["AIRFLOW__API__BASE_URL"] = "https://airflow.example.com/af/"
import warnings
warnings.simplefilter("ignore")
from fastapi import FastAPI
from fastapi.testclient import TestClient
from airflow.api_fastapi.core_api.security import get_user
from airflow.plugins_manager import get_fastapi_plugins
from tidegate import airflow
from tidegate_operators.airflow import reports
(mounted,) = [one for one in get_fastapi_plugins()[0] if one["url_prefix"] == reports.PREFIX]
app = FastAPI()
app.mount(mounted["url_prefix"], mounted["app"])
client = TestClient(app)

def ask(path):
    answer = client.get(f"{reports.PREFIX}/{path}")
    return [answer.status_code, dict(answer.headers), answer.text]

def link(kind, **fields):
    return getattr(airflow, f"{kind}ReportLink")().get_link(SimpleNamespace(**fields), ti_key=None)

nobody = ask("m/2.report/index.html")
reports._application().dependency_overrides[get_user] = lambda: "somebody"
print(json.dumps({
    "nobody": nobody,
    "answers": {path: ask(path) for path in sys.argv[2:]},
    "links": [link("Verdict", directory=f"{root}/models/m/2"), link("Verdict", directory="/mnt/m x/2"),
              link("Skew", report=f"{root}/skew/today"), link("Skew", report=None),
              link("Verdict", directory="/mnt/m/2", report_url="https://reports.example.com")],
}))
"""
GIVEN = ("m/2.report/index.html", "m/2.report/verdict.json", "today/index.html")
KEPT = (
    "m/2/model.py",
    "m/2/index.html",
    "m/2.verdict.json",
    "m/2.report/model.py",
    "m/2.report/link.html",
    "m/2.report/..%2F..%2F..%2Fsecret.report%2Findex.html",
    "m/2.report/%2e%2e/2/index.html",
    "..%2Fsecret.report%2Findex.html",
    "%2Fetc%2Fpasswd",
    "m/2.report",
    "m/2.report/",
    "",
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("roots")
    page = "<h1>a report</h1>"
    for path in (
        "models/m/2.report/index.html",
        "models/m/2/index.html",
        "skew/today/index.html",
        "secret.report/index.html",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(page)
    for path in (
        "models/m/2/model.py",
        "models/m/2.verdict.json",
        "models/m/2.report/model.py",
        "models/m/2.report/verdict.json",
        "skew/today/skew.json",
    ):
        (root / path).write_text("{}")
    (root / "models/m/2.report/link.html").symlink_to(root / "secret.report/index.html")
    found: dict[str, Any] = json.loads(python(ASK, str(root), *GIVEN, *KEPT, home=tmp_path_factory.mktemp("airflow")))
    return {**found, "root": str(root)}


def test_only_files_of_reports_are_given_out(seen: dict[str, Any]) -> None:
    assert {path: seen["answers"][path][0] for path in GIVEN} == dict.fromkeys(GIVEN, 200)
    assert {path: seen["answers"][path][0] for path in KEPT} == dict.fromkeys(KEPT, 404)


def test_who_is_not_signed_in_gets_nothing(seen: dict[str, Any]) -> None:
    status, _, text = seen["nobody"]
    assert status == 401
    assert "a report" not in text


def test_every_answer_forbids_scripts_and_framing(seen: dict[str, Any]) -> None:
    for status, headers, _ in (seen["nobody"], *seen["answers"].values()):
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src"), status
        assert "script-src" not in headers["content-security-policy"]
        assert "frame-ancestors 'self'" in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "SAMEORIGIN")
    assert seen["answers"]["m/2.report/index.html"][1]["content-type"] == "text/html; charset=utf-8"


def test_links_lead_to_airflow_itself_unless_an_operator_names_another_place(seen: dict[str, Any]) -> None:
    below = "https://airflow.example.com/af/tidegate/reports"
    assert seen["links"] == [
        f"{below}/m/2.report/index.html",
        f"{below}/m%20x/2.report/index.html",
        f"{below}/today/index.html",
        "",
        "https://reports.example.com/m/2.report/index.html",
    ]


JUDGE = """
import json, sys
from types import SimpleNamespace
import structlog
from airflow.sdk.exceptions import AirflowFailException
from tidegate.airflow import ValidateModelOperator

pushed = {}
ti = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
operator = ValidateModelOperator(task_id="validate", **json.loads(sys.argv[1]))
with structlog.testing.capture_logs() as said:
    try:
        operator.execute({"ti": ti})
    except AirflowFailException as error:
        print(json.dumps([str(error), pushed["return_value"], [str(one["event"]) for one in said]]))
"""


def test_who_reads_the_log_of_a_refusal_sees_what_each_gate_said_and_where_the_report_is(
    world: World, endpoints: Endpoints, tmp_path: Path
) -> None:
    host, _, port = endpoints.control.rpartition(":")
    given = {
        "directory": str(world.publish(1, NONSENSE, name="refused")),
        "held_out": str(world.held_out),
        "private_key": str(world.private_key),
        "policy": str(world.policy("robustness")),
    }
    engine = json.dumps({"conn_type": "tidegate", "host": host, "port": int(port)})
    told = json.loads(python(JUDGE, json.dumps(given), home=tmp_path, AIRFLOW_CONN_TIDEGATE_DEFAULT=engine))
    refusal, pushed, said = told
    assert refusal.startswith("refused:1 is refused by the robustness gate")
    assert any(one.startswith("robustness FAIL: ") for one in said), said
    assert any(one.endswith(pushed["report"]) for one in said), said
    assert Path(pushed["report"]).is_file()
