"""What triggers see of a registry that is played here."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.operators.airflow.test_parsing import python
from tests.support.neighbours.http_server import http_server
from tests.support.neighbours.played_registry import ALIAS, played_registry

from tidegate_operators.airflow.waiting import registered_version
from tidegate_serving.contract.errors import PermissionRefused, Unavailable


def test_a_trigger_signs_in_and_sees_the_version_of_an_alias_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "anna")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "s3cret")
    with played_registry() as played:
        played.authorization = "Basic " + base64.b64encode(b"anna:s3cret").decode()
        played.wanted = {"delays": 3}
        assert registered_version(played.address, "delays", ALIAS) == "3"
        assert registered_version(played.address, "delays", "champion") is None
        played.authorization = "another"
        with pytest.raises(PermissionRefused):
            registered_version(played.address, "delays", ALIAS)
        played.faulty.set()
        with pytest.raises(Unavailable, match="failed with HTTP 500"):
            registered_version(played.address, "delays", ALIAS)


NO_SERVERS = ["mlflow:5000", "htp://mlflow:5000", "http://:5000", "databricks", ""]
READ = """
import json, sys
from tidegate_operators.airflow.triggers import RegisteredModelTrigger
from tidegate_serving.contract.errors import InvalidInput

said = []
for uri in json.loads(sys.argv[1]):
    try:
        RegisteredModelTrigger(name="delays", uri=uri)
    except InvalidInput as error:
        said.append(error.message)
print(json.dumps(said))
"""


def test_a_trigger_on_what_is_no_servers_address_is_refused_where_its_dag_is_read(tmp_path: Path) -> None:
    said = json.loads(python(READ, json.dumps(NO_SERVERS), home=tmp_path))
    assert len(said) == len(NO_SERVERS)
    assert all("write the address of its server, http://HOST:PORT" in one for one in said)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("http://no-such-host.invalid:5000", "nobody has that name here, mend the uri"),
        ("https://{}", "it speaks no TLS there, write http:// in the uri"),
        ("http://{}/elsewhere", "failed with HTTP 404 .* it is no MLflow, mend the uri"),
    ],
)
def test_an_address_that_is_a_mistake_is_told_as_one(uri: str, words: str) -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

        def do_GET(self) -> None:
            self.send_error(404)

    with http_server(Elsewhere) as address, pytest.raises(Unavailable, match=words):
        registered_version(uri.format(address), "delays", ALIAS)


OUTAGE = """
import asyncio, json, logging, sys
from tests.support.neighbours.played_registry import ALIAS, played_registry
from tidegate_operators.airflow.triggers import RegisteredModelTrigger

said, looks = [], iter([1, 1, 1, 0])

class Said(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

class Away(RegisteredModelTrigger):
    log = logging.getLogger("away")

    def _look(self):
        if next(looks):
            played.faulty.set()
        else:
            played.recover()
        return super()._look()

async def first():
    return (await anext(Away(name="delays", uri=played.address, alias=ALIAS, poll_seconds=0.01).run())).payload

Away.log.addHandler(Said())
with played_registry() as played:
    played.wanted = {"delays": 3}
    print(json.dumps([asyncio.run(first())["version"], said]))
"""


def test_a_trigger_survives_an_outage_and_complains_of_it_once(tmp_path: Path) -> None:
    version, said = json.loads(python(OUTAGE, home=tmp_path))
    assert version == "3"
    assert len([one for one in said if "HTTP 500" in one]) == 1


PAUSE = """
import asyncio, json
from datetime import UTC, datetime, timedelta
import structlog
from airflow.sdk.exceptions import TaskDeferred
from tidegate.airflow import SkewReportOperator
# The time until then is the pause's, and not that of what the operator imports.
from tidegate_operators import steps
from tidegate_operators.airflow import skewness, triggers

until = datetime.now(UTC) + timedelta(seconds=2)

async def waited(trigger):
    async for event in trigger.run():
        return (datetime.now(UTC) - until).total_seconds()

try:
    SkewReportOperator(task_id="skew", servable="flights", until=until.isoformat(), deferrable=True).execute({})
except TaskDeferred as deferred:
    with structlog.testing.capture_logs() as said:
        late = asyncio.run(waited(deferred.trigger))
    print(json.dumps([late, [one["event"] for one in said]], default=str))
"""


def test_a_pause_says_nothing_each_second_in_the_tasks_log(tmp_path: Path) -> None:
    late, said = json.loads(python(PAUSE, home=tmp_path))
    assert late >= 0.0
    assert said == []


SENSOR = """
import json
from datetime import timedelta
import structlog
from airflow.sdk.exceptions import AirflowException, TaskDeferred
from tidegate.airflow import VersionAvailableSensor

sensor = VersionAvailableSensor(task_id="sensor", servable="flights", version=3, deferrable=True, timeout=20)
with structlog.testing.capture_logs() as said:
    try:
        sensor.execute({})
    except TaskDeferred as deferred:
        ends = deferred.timeout.total_seconds()
try:
    sensor.finish({}, {"state": "DEADLINE"})
except AirflowException as error:
    print(json.dumps([str(error), [str(one["event"]) for one in said], ends]))
"""


def test_a_sensor_tells_what_it_waits_for(tmp_path: Path) -> None:
    nobody = json.dumps({"conn_type": "tidegate", "host": "127.0.0.1", "port": 1})
    ended, said, ends = json.loads(python(SENSOR, home=tmp_path, AIRFLOW_CONN_TIDEGATE_DEFAULT=nobody))
    assert ended.startswith("flights:3 was not available after 20 s: no engine answers at 127.0.0.1:1 ")
    assert any("flights:3 is not available yet: no engine answers at 127.0.0.1:1 " in one for one in said), said
    assert ends > 20 + 30  # Airflow ends no wait before the trigger has told why, though a triggerer is slow
