"""Alert rules and dashboard ask for metrics that engines have, in words that Prometheus takes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from shutil import which
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from tests.support.engine.control import push_and_wait
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish
from tests.support.release.rings import make_ring

from tidegate_serving.admission import Finding, Outcome, watch
from tidegate_serving.client import Client
from tidegate_serving.config import EngineConfig
from tidegate_serving.control_client import ControlClient
from tidegate_serving.engine import Engine
from tidegate_validation.report import write_report
from tidegate_validation.report.gauges import gauges, write_gauges
from tidegate_validation.skew import SkewReport
from tidegate_validation.skew.over_time import Evidence, OverTime

ROOT = Path(__file__).resolve().parents[3]
FOLDER = resources.files("tidegate_pipelines.monitoring")
_NAME = re.compile(r"\btidegate_[a-z0-9_]+")
_SUFFIX = re.compile(r"_(bucket|sum|count)$")


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    if which("promtool") is None:
        subprocess.run([str(ROOT / "tools/toolchain.sh"), "debian", "promtool:prometheus"], check=True)
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FOLDER.joinpath("dashboard.json").read_text())
    return found


def queries() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The families that an engine exports: it answered a request, by a version that a signed override let in and that
    runs in processes of its own, with a log and a memory limit."""
    monkeypatch.setattr(watch, "SECONDS", 0.05)
    ring = make_ring(tmp_path / "keys")
    (tmp_path / "policy.toml").write_text('[[override]]\nkeys = ["alice"]\ngates = ["quality"]\n')
    directory = publish(tmp_path / "models", "m", 1, adding(1))
    ring.validator().sign(directory, allowed=False, denied_by=Outcome.INCONCLUSIVE)
    ring.override(directory, "alice")
    config = EngineConfig(
        grpc_address="127.0.0.1:0",
        rest_address="127.0.0.1:0",
        control_address="127.0.0.1:0",
        roots=(tmp_path / "models",),
        state_directory=tmp_path / "state",
        log_path=tmp_path / "log",
        trusted_keys=(ring.folder,),
        override_policy=tmp_path / "policy.toml",
        isolation="own",
    )

    def scraped(engine: Engine) -> str:
        return httpx.get(f"http://{engine.addresses.rest}/metrics", timeout=30, trust_env=False).text

    with Engine(config) as engine, ControlClient(engine.addresses.control) as control:
        push_and_wait(control, directory)
        Client(engine.addresses.grpc).predict("m", {"x": np.array([1.0], "f4")})
        eventually(lambda: "tidegate_override_in_force{" in scraped(engine))
        return set(re.findall(r"^# TYPE (\w+)", scraped(engine), re.MULTILINE))


def asked(text: str) -> set[str]:
    return {_SUFFIX.sub("", name) for name in _NAME.findall(text)}


def test_a_report_that_was_made_within_the_second_of_its_window_lags_by_nothing(tmp_path: Path) -> None:
    made = replace(report(), made_at="2026-01-01T23:59:59+00:00")
    assert (
        'tidegate_skew_lag_seconds{model="m",version="2"} 0.0' in write_gauges(made, tmp_path).read_text().splitlines()
    )


def test_the_page_of_a_watch_says_what_is_in_alarm_and_since_when(tmp_path: Path) -> None:
    page = write_report(report(), tmp_path).read_text()
    assert "In alarm" in page
    assert "since the window of 2026-01-01 00:00 UTC" in page
    assert "2026-01-01 00:00 UTC to 2026-01-02 00:00 UTC" in page


def test_prometheus_takes_the_alert_rules() -> None:
    with resources.as_file(FOLDER.joinpath("alerts.yml")) as path:
        checked = promtool("check", "rules", "--lint=all", "--lint-fatal", str(path))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_prometheus_takes_every_query_of_the_dashboard(tmp_path: Path) -> None:
    found = [query.replace("$__rate_interval", "5m") for query in queries()]
    rules = [{"record": f"a:query:{number}", "expr": query} for number, query in enumerate(found)]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    checked = promtool("check", "rules", str(path))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(found) > 20


def test_where_nothing_fails_the_dashboard_shows_a_nought(tmp_path: Path) -> None:
    shown = [
        query.replace("$__rate_interval", "5m").replace("$job", ".+").replace("$instance", ".+").replace("$model", ".*")
        for query in queries()
        if "INTERNAL" in query or "override_in_force" in query
    ]
    assert len(shown) == 2
    sound = 'tidegate_requests_total{job="tidegate",instance="a",model="m",version="2",status="OK"}'
    test = {
        "interval": "1m",
        "input_series": [{"series": sound, "values": "0+60x40"}],
        "promql_expr_test": [
            {"expr": query, "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": 0}]} for query in shown
        ],
    }
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump({"tests": [test]}))
    checked = promtool("test", "rules", str(path))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_both_ask_for_what_engines_measure(exported: set[str]) -> None:
    rules = yaml.safe_load(FOLDER.joinpath("alerts.yml").read_text())["groups"][0]["rules"]
    wanted = {name for rule in rules for name in asked(rule["expr"])} | {
        name for query in queries() for name in asked(query)
    }
    assert wanted - exported == set()
    assert len(wanted) > 15


@pytest.mark.parametrize(
    ("series", "alert"),
    [
        ('tidegate_requests_total{instance="a",model="m",version="2",status="INTERNAL"}', "TidegateErrors"),
        ('tidegate_panics_total{instance="a",model="m",version="2"}', "TidegatePanic"),
        ('tidegate_background_restarts_total{instance="a"}', "TidegateBackgroundRestarts"),
        ('tidegate_log_dropped_rows_total{instance="a",model="m",version="2",role="primary"}', "TidegateLogDropped"),
        ('tidegate_worker_restarts{instance="a",model="m",version="2"}', "TidegateWorkersDie"),
    ],
)
def test_an_alert_fires_on_what_it_is_for(tmp_path: Path, series: str, alert: str) -> None:
    checked = fired(tmp_path, "alerts.yml", series, "0+60x40", alert)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def fired(tmp_path: Path, name: str, series: str, values: str, alert: str) -> subprocess.CompletedProcess[str]:
    """Whether an alert of a rules file fires on a series within half an hour, as promtool says."""
    with resources.as_file(FOLDER.joinpath(name)) as rules:
        test = {
            "rule_files": [str(rules)],
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [{"series": series, "values": values}],
                    "promql_expr_test": [
                        {
                            "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                            "eval_time": "30m",
                            "exp_samples": [{"labels": "{}", "value": 1}],
                        }
                    ],
                }
            ],
        }
        path = tmp_path / "test.yml"
        path.write_text(yaml.safe_dump(test))
        return promtool("test", "rules", str(path))


def report() -> SkewReport:
    """A window of one model, with a feature whose name has to be escaped."""
    found = (
        Finding("distribution", 'a "b"', Outcome.FAIL, "`a`: 2 times", number=0.7),
        Finding("distribution", "c", Outcome.PASS, "`c`: as in training", number=0.01),
    )
    until = datetime(2026, 1, 2, tzinfo=UTC)
    seen = OverTime(365, 3, True, 300.0, {'a "b"': Evidence(600.0, 20.0, "2026-01-01T00:00:00+00:00")})
    return SkewReport(
        model="m",
        version=2,
        role="primary",
        since=until - timedelta(days=1),
        until=until,
        rows=12,
        profile_id="p",
        outcome=Outcome.FAIL,
        sentence="`a`: 2 times.",
        findings=found,
        made_at="2026-01-02T01:00:00+00:00",
        over_time=seen,
    )


def test_prometheus_takes_the_gauges_of_a_watch(tmp_path: Path) -> None:
    path = write_gauges(report(), tmp_path)
    assert path.name == "skew.prom"
    text = path.read_text()
    promtool("--version")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    lines = text.splitlines()
    escaped = 'model="m",version="2",feature="a \\"b\\""'
    assert f'tidegate_skew_state{{{escaped},state="FAIL"}} 1.0' in lines
    assert f"tidegate_skew_effect{{{escaped}}} 0.7" in lines
    assert f"tidegate_skew_evidence{{{escaped}}} 600.0" in lines
    assert f"tidegate_skew_e_value{{{escaped}}} 20.0" in lines
    assert f"tidegate_skew_alarm{{{escaped}}} 1.0" in lines
    assert 'tidegate_skew_rows{model="m",version="2"} 12' in lines
    assert 'tidegate_skew_lag_seconds{model="m",version="2"} 3600.0' in lines


def test_prometheus_takes_the_alert_rules_of_a_watch_which_ask_for_its_gauges() -> None:
    with resources.as_file(FOLDER.joinpath("skew_alerts.yml")) as path:
        checked = promtool("check", "rules", "--lint=all", "--lint-fatal", str(path))
        rules = yaml.safe_load(path.read_text())["groups"][0]["rules"]
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert {name for rule in rules for name in asked(rule["expr"])} <= set(_NAME.findall(gauges(report())))


@pytest.mark.parametrize(
    ("series", "values", "alert"),
    [
        ('tidegate_skew_state{feature="a",model="m",version="2",state="FAIL"}', "1x40", "TidegateSkew"),
        ('tidegate_skew_alarm{feature="a",model="m",version="2"}', "1x40", "TidegateDrift"),
        ('tidegate_skew_window_end_seconds{model="m",version="2"}', "-200000x40", "TidegateSkewNotSeen"),
        ('tidegate_skew_rows{model="m",version="2"}', "0x40", "TidegateSkewNoRows"),
    ],
)
def test_an_alert_of_a_watch_fires_on_what_it_is_for(tmp_path: Path, series: str, values: str, alert: str) -> None:
    checked = fired(tmp_path, "skew_alerts.yml", series, values, alert)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_dashboards_panels_have_a_place_a_unit_and_words() -> None:
    found = dashboard()
    shown = [panel for panel in found["panels"] if panel["type"] != "row"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in found["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in found["panels"]}) == len(places)
    for panel in shown:
        assert panel["title"], panel
        assert panel["description"], panel
        assert panel["fieldConfig"]["defaults"]["unit"], panel
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_the_dashboard_is_as_grafanas_linter_wants_it() -> None:
    """What `dashboard-linter lint --strict` (github.com/grafana/dashboard-linter) looks at and promtool does not."""
    found = dashboard()
    assert found["editable"] is False
    variables = {one["name"]: one for one in found["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "instance", "model"]
    for name in ("job", "instance"):
        one = variables[name]
        assert (one["label"], one["allValue"]) == (name.title(), ".+")
        assert (one["multi"], one["refresh"], one["datasource"]["uid"]) == (True, 2, "${datasource}")
    for query in queries():
        chosen = query.count('{job=~"$job", instance=~"$instance"')
        assert chosen == len(_NAME.findall(query)) > 0, query
