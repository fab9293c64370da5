"""Alert rules and dashboard ask for metrics that engines have, in words that Prometheus takes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import yaml

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


def exported() -> set[str]:
    """The families that the operations page tells of, which its own test holds against an engine."""
    return set(_NAME.findall((ROOT / "docs/operations.md").read_text()))


def asked(text: str) -> set[str]:
    return {_SUFFIX.sub("", name) for name in _NAME.findall(text)}


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


def test_both_ask_for_what_engines_measure() -> None:
    rules = yaml.safe_load(FOLDER.joinpath("alerts.yml").read_text())["groups"][0]["rules"]
    wanted = {name for rule in rules for name in asked(rule["expr"])} | {
        name for query in queries() for name in asked(query)
    }
    assert wanted - exported() == set()
    assert len(wanted) > 15


@pytest.mark.parametrize(
    ("series", "alert"),
    [
        ('tidegate_requests_total{instance="a",model="m",version="2",status="INTERNAL"}', "TidegateErrors"),
        ('tidegate_panics_total{instance="a",model="m",version="2"}', "TidegatePanic"),
        ('tidegate_log_dropped_rows_total{instance="a",model="m",version="2",role="primary"}', "TidegateLogDropped"),
    ],
)
def test_an_alert_fires_on_what_it_is_for(tmp_path: Path, series: str, alert: str) -> None:
    with resources.as_file(FOLDER.joinpath("alerts.yml")) as rules:
        test = {
            "rule_files": [str(rules)],
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [{"series": series, "values": "0+60x40"}],
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
        checked = promtool("test", "rules", str(path))
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
