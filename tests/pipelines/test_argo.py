"""The AnalysisTemplate is what Argo's schema takes, and its conditions decide by what the endpoint answers."""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.support.command import Command
from tests.support.models.versions import digest_of
from tests.support.neighbours.certificates import Authority
from tests.support.release.world import NAME, World, make_world

from tidegate_operators.steps.canary import RECORD_NAME, write_result
from tidegate_pipelines.argo import CanaryEndpoint, Protection, analysis_template
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.repository import report_directory
from tidegate_validation.canary.judgement import CanaryResult
from tidegate_validation.canary.numbers import CanaryNumbers

TOKEN = "argo-may-ask"
TEXT, WHOLE = {"type": "string"}, {"type": ["integer", "string"]}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


SECRET = closed(["name", "key"], name=TEXT, key=TEXT)
HEADER = closed(["key", "value"], key=TEXT, value=TEXT)
WEB = closed(
    ["url"],
    url=TEXT,
    method={"enum": ["GET", "POST", "PUT"]},
    headers={"type": "array", "items": HEADER},
    body=TEXT,
    jsonBody={"type": "object"},
    jsonPath=TEXT,
    timeoutSeconds={"type": "integer"},
    insecure={"type": "boolean"},
    authentication={"type": "object"},
)
METRIC = closed(
    ["name", "provider"],
    name=TEXT,
    provider=closed(["web"], web=WEB),
    interval={"type": "string", "pattern": r"^\d+(s|m|h)$"},
    initialDelay=TEXT,
    count=WHOLE,
    successCondition=TEXT,
    failureCondition=TEXT,
    failureLimit=WHOLE,
    inconclusiveLimit=WHOLE,
    consecutiveErrorLimit=WHOLE,
    consecutiveSuccessLimit=WHOLE,
)
ARGUMENT = closed(["name"], name=TEXT, value=TEXT, valueFrom=closed([], secretKeyRef=SECRET, fieldRef={}))
TEMPLATE = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "argoproj.io/v1alpha1"},
    kind={"const": "AnalysisTemplate"},
    metadata=closed(["name"], name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}),
    spec=closed(
        ["metrics"],
        args={"type": "array", "items": ARGUMENT},
        metrics={"type": "array", "minItems": 1, "items": METRIC},
    ),
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@contextmanager
def serving(world: World, protection: Protection | None = None, host: str = "127.0.0.1") -> Iterator[CanaryEndpoint]:
    endpoint = CanaryEndpoint(world.repository, f"{host}:0", protection or Protection())
    thread = threading.Thread(target=endpoint.serve)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.close()
        thread.join(30)


def ask(url: str, token: str = "", tls: ssl.SSLContext | None = None) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10, context=tls) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def measured(template: dict[str, Any], url: str, version: int, token: str, tls: ssl.SSLContext) -> str:
    """What Argo's controller makes of one measurement: arguments in, the path of the answer, the two conditions."""
    metric = template["spec"]["metrics"][0]
    web = metric["provider"]["web"]
    given = {"url": url, "model": NAME, "version": str(version), "token": token}

    def filled(text: str) -> str:
        for name, value in given.items():
            text = text.replace("{{args." + name + "}}", value)
        return text

    headers = {one["key"]: filled(one["value"]) for one in web["headers"]}
    request = urllib.request.Request(filled(web["url"]), headers=headers)
    with urllib.request.urlopen(request, timeout=web["timeoutSeconds"], context=tls) as answer:
        document = json.load(answer)
    result = document[web["jsonPath"].removeprefix("{$.").removesuffix("}")]
    for condition, phase in (("failureCondition", "Failed"), ("successCondition", "Successful")):
        if result == json.loads(metric[condition].removeprefix("result == ")):
            return phase
    return "Inconclusive"


def test_the_template_is_what_argos_schema_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = Command(monkeypatch, capsys)("argo", "template").stdout
    assert printed == analysis_template()
    template = yaml.safe_load(printed)
    jsonschema.validate(template, TEMPLATE)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**template, "spec": {**template["spec"], "metric": []}}, TEMPLATE)
    used = {part.partition("}}")[0] for part in printed.split("{{args.")[1:]}
    assert used == {argument["name"] for argument in template["spec"]["args"]}


def test_argo_waits_goes_on_and_steps_back_with_the_canary(world: World) -> None:
    template = yaml.safe_load(analysis_template())
    authority = Authority(world.root)
    shown = authority.issue("tidegate-canary")
    tls = ssl.create_default_context(cafile=str(authority.file))
    directory = world.publish(2)
    numbers = CanaryNumbers(compared=400, max_difference=float("inf"))
    with serving(world, Protection(shown.certificate, shown.key, TOKEN), host="0.0.0.0") as endpoint:
        url = f"https://127.0.0.1:{endpoint.address.rpartition(':')[2]}"
        seen = [measured(template, url, 2, TOKEN, tls)]
        for outcome in (Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.INCONCLUSIVE):
            write_result(directory, CanaryResult(outcome, f"it ended in {outcome}", numbers), digest_of(directory))
            seen.append(measured(template, url, 2, TOKEN, tls))
        assert seen == ["Inconclusive", "Successful", "Successful", "Failed", "Failed"]
        status, document = ask(f"{url}/v1/canaries/{NAME}/2", TOKEN, tls)
        assert (status, document["sentence"], document["compared"]) == (200, "it ended in INCONCLUSIVE", 400)
        write_result(directory, CanaryResult(Outcome.PASS, "other files passed", numbers), "0" * 64)
        assert measured(template, url, 2, TOKEN, tls) == "Inconclusive", "other files under the number passed"
        going_on = {
            "format": "tidegate.canary-run/1",
            "run": "again",
            "manifest_digest": "0" * 64,
            "since": "2026-03-01T12:00:00+00:00",
            "step": None,
            "result": None,
        }
        (report_directory(directory) / RECORD_NAME).write_text(json.dumps(going_on))
        assert measured(template, url, 2, TOKEN, tls) == "Inconclusive", (
            "one that began again is not decided by the last"
        )
        assert [ask(f"{url}/v1/canaries/{NAME}/2", token, tls)[0] for token in ("", "wrong")] == [401, 401]


def test_what_is_no_version_is_not_found_and_a_torn_file_is_said(world: World) -> None:
    directory = world.publish(1)
    with serving(world) as endpoint:
        base = f"http://{endpoint.address}/v1/canaries"
        for path in (f"{NAME}/9", "..%2F..%2Fkeys/1", f"{NAME}/1/manifest.json", "<script>/1", f"{NAME}/x", ""):
            assert ask(f"{base}/{path}")[0] == 404, path
        report_directory(directory).mkdir()
        (report_directory(directory) / "canary.json").write_text("{")
        status, document = ask(f"{base}/{NAME}/1")
    assert (status, "is no canary's result" in document["error"]) == (500, True)


def test_beyond_loopback_it_needs_tls_and_a_token(world: World) -> None:
    shown = Authority(world.root).issue("tidegate-canary")
    for protection in (Protection(), Protection(token=TOKEN), Protection(shown.certificate, shown.key)):
        with pytest.raises(InvalidInput, match="can be reached from elsewhere: give certificate, key and token"):
            CanaryEndpoint(world.repository, "0.0.0.0:0", protection)
    with pytest.raises(InvalidInput, match="go together"):
        CanaryEndpoint(world.repository, "127.0.0.1:0", Protection(certificate=shown.certificate))
    with pytest.raises(InvalidInput, match="cannot be used"):
        CanaryEndpoint(world.repository, "127.0.0.1:0", Protection(shown.certificate, shown.certificate))
    with pytest.raises(InvalidInput, match="cannot be listened on"):
        CanaryEndpoint(world.repository, "127.0.0.1:http", Protection())
    with pytest.raises(NotFound, match=r"model repository .*nowhere is no folder here: mend the path, or mount it"):
        CanaryEndpoint(world.repository / "nowhere", "127.0.0.1:0", Protection())


def test_a_plain_text_client_gets_no_answer_and_harms_nobody(world: World) -> None:
    authority = Authority(world.root)
    shown = authority.issue("tidegate-canary")
    world.publish(1)
    with serving(world, Protection(shown.certificate, shown.key, TOKEN)) as endpoint:
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            ask(f"http://{endpoint.address}/v1/canaries/{NAME}/1", TOKEN)
        tls = ssl.create_default_context(cafile=str(authority.file))
        assert ask(f"https://{endpoint.address}/v1/canaries/{NAME}/1", TOKEN, tls)[0] == 200
