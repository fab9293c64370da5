"""What triggers see of a registry that is played here."""

from __future__ import annotations

import asyncio
import base64
from http.server import BaseHTTPRequestHandler
from logging import WARNING, getLogger
from typing import Any

import pytest
from tests.support.neighbours.http_server import http_server
from tests.support.neighbours.played_registry import ALIAS, played_registry

from tidegate_operators.airflow.triggers import RegisteredModelTrigger
from tidegate_operators.airflow.waiting import registered_version
from tidegate_serving.contract.errors import InvalidInput, PermissionRefused, Unavailable


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


@pytest.mark.parametrize("uri", ["mlflow:5000", "htp://mlflow:5000", "http://:5000", "databricks", ""])
def test_a_trigger_on_what_is_no_servers_address_is_refused_where_its_dag_is_read(uri: str) -> None:
    with pytest.raises(InvalidInput, match="write the address of its server, http://HOST:PORT"):
        RegisteredModelTrigger(name="delays", uri=uri)


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


def test_a_trigger_survives_an_outage_and_complains_of_it_once(caplog: pytest.LogCaptureFixture) -> None:
    async def fires() -> Any:
        looks = iter([1, 1, 1, 0])

        class Away(RegisteredModelTrigger):
            log = getLogger("away")  # type: ignore[assignment]

            def _look(self) -> str | None:
                if next(looks):
                    played.faulty.set()
                else:
                    played.recover()
                return super()._look()

        trigger = Away(name="delays", uri=played.address, alias=ALIAS, poll_seconds=0.01)
        return (await anext(trigger.run())).payload

    with played_registry() as played, caplog.at_level(WARNING):
        played.wanted = {"delays": 3}
        assert asyncio.run(fires())["version"] == "3"
    assert len([one for one in caplog.records if "HTTP 500" in one.getMessage()]) == 1
