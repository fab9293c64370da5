"""Every route of the hub, asked by somebody of one team about another team's models: they are as if not there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select
from tests.support.hub.access import TOKENS, people_file
from tests.support.hub.pages import MODELS, make_world, serving
from tests.support.hub.receipts import ANSWERED

from tidegate_pipelines.hub.config import HubConfig, ReleaseConfig
from tidegate_pipelines.hub.decisions.asked import KINDS
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.store import Database, DecisionRow, ReleaseRow, SkewWindowRow

THEIRS = "eta"
"""The model of release 8 and of what was logged; that of skew reports is `SKEWED`."""
SKEWED = "search-ranking"
_AS = {"authorization": f"Bearer {TOKENS['ci']}"}
_SOON = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
_BEFORE = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
ASKED: dict[str, Any] = {
    "release_id": 8,
    "release": 8,
    "digest": f"{8:064x}",
    "model": THEIRS,
    "name": THEIRS,
    "thing": f"model {THEIRS}",
    "request_id": ANSWERED,
    "version": 9,
    "feature": "distance",
    "reason": "to see whether it is possible",
    "succeeded": True,
    "begun": _BEFORE,
    "ended": _BEFORE,
    "key": "of this test",
}
"""What each parameter and field is asked with."""
NOBODYS = {
    **ASKED,
    "release_id": 999,
    "release": 999,
    "digest": "f" * 64,
    "model": "nobodys",
    "name": "nobodys",
    "request_id": "nobodys",
}
"""The same about what nobody has."""
PAGES = (
    "/",
    "/models",
    "/models?q=eta",
    "/models/eta",
    "/features/eta?name=distance",
    "/releases",
    "/releases?q=eta",
    "/releases/8",
    "/releases/8/verdict.json",
    "/engines",
    "/audit",
    f"/receipts?id={ANSWERED}",
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("teams")
    database = Database(f"sqlite:///{folder}/hub.db")
    make_world(database, folder=folder)
    yield database
    database.close()


@pytest.fixture(scope="module")
def client(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Somebody of the team of flights, who may release."""
    folder = Path(str(database.url.database)).parent
    access = AccessConfig(file=people_file(folder))
    config = HubConfig(access=access, releases=ReleaseConfig(repository=folder / "models"))
    with (
        serving(database, None, config) as address,
        httpx.Client(base_url=address, headers=_AS, timeout=60, trust_env=False) as client,
    ):
        yield client


_NAMED_BY_QUERY = ("/api/v1/labels",)
"""The model may come in a form as well, so that the document calls it optional."""


def routes(client: httpx.Client) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Method, path, operation and all schemas, of each route that the document has."""
    document = client.get("/api/openapi.json").json()
    schemas = document["components"]["schemas"]
    return [(method, path, one, schemas) for path, ways in document["paths"].items() for method, one in ways.items()]


def asked(operation: dict[str, Any], where: str, values: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    found = [one for one in operation.get("parameters", ()) if one["in"] == where]
    return {
        one["name"]: values[one["name"]] for one in found if one["required"] or (optional and one["name"] in values)
    }


def body(path: str, operation: dict[str, Any], schemas: dict[str, Any], values: dict[str, Any]) -> Any:
    """What is sent: each field that is required, and the model where there is one."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if path == "/api/v1/skew":
        return {"model": values["model"], "version": values["version"], "features": []}
    if content is None:
        return None
    schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
    wanted = {*schema.get("required", ()), *({"model", "version"} & schema["properties"].keys())}
    return {name: values[name] for name in wanted}


def leaks(text: str, model: str = THEIRS) -> list[str]:
    """Another team's models that an answer names; the one that was asked for may come back in a refusal."""
    return [name for name in MODELS if name not in ("flights", model) and re.search(rf"\b{name}\b", text)]


def rows(database: Database) -> list[int | None]:
    with database.reading() as session:
        tables = (ReleaseRow, DecisionRow, SkewWindowRow)
        return [session.scalar(select(func.count()).select_from(table)) for table in tables]


@pytest.mark.parametrize("model", [THEIRS, SKEWED])
def test_no_route_tells_or_changes_anything_of_another_teams_models(
    client: httpx.Client, database: Database, model: str
) -> None:
    before, seen = rows(database), set()
    about = {**ASKED, "model": model, "name": model}
    for method, path, operation, schemas in routes(client):
        if path in ("/api/v1/events", "/api/v1/decisions/{kind}") and (method, path) != ("get", "/api/v1/decisions"):
            continue
        for optional in (False, True):
            answers = []
            for values in (about, NOBODYS):
                url = path.format(**asked(operation, "path", values, optional=True))
                query = asked(operation, "query", values, optional=optional or path in _NAMED_BY_QUERY)
                sent = body(path, operation, schemas, values)
                answers.append(client.request(method.upper(), url, params=query, json=sent))
            theirs, nobodys = answers
            what = f"{method} {path} {theirs.status_code} {theirs.text[:500]}"
            assert theirs.status_code == nobodys.status_code, what
            assert theirs.status_code in ((200, 403, 404) if method == "get" else (403, 404)), what
            assert leaks(theirs.text, model) == [], what
            assert theirs.status_code != 200 or model not in json.dumps(names(theirs.json())), what
            seen.add(theirs.status_code)
    assert seen == {200, 403, 404}
    assert rows(database) == before


def names(found: Any) -> list[Any]:
    """The models that an answer names."""
    if isinstance(found, dict):
        own = [found[key] for key in ("model", "name") if key in found]
        return [*own, *(one for value in found.values() for one in names(value))]
    return [one for value in found for one in names(value)] if isinstance(found, list) else []


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_decides_about_another_teams_models(client: httpx.Client, database: Database, kind: str) -> None:
    before = rows(database)
    until = _BEFORE if kind == "accept-reference" else _SOON
    times = {"since": (datetime.now(UTC) - timedelta(days=2)).isoformat(), "until": until}
    answers = []
    for values in (ASKED, NOBODYS):
        needed = {name: {**values, **times}[name] for name in KINDS[kind].needs}
        answers.append(client.post(f"/api/v1/decisions/{kind}", json={**needed, "reason": "to see", "key": "mine"}))
    theirs, nobodys = answers
    assert theirs.status_code == nobodys.status_code == (404 if "release_id" in KINDS[kind].needs else 403), theirs.text
    if "release_id" in KINDS[kind].needs:
        assert THEIRS not in theirs.json()["error"]["message"]
    assert rows(database) == before


def test_another_teams_decisions_take_no_place_in_a_list(client: httpx.Client) -> None:
    (newest,) = client.get("/api/v1/decisions", params={"count": 1}).json()
    assert (newest["model"], newest["kind"]) == ("flights", "approve")


def test_the_key_of_another_teams_decision_says_nothing_of_it(client: httpx.Client) -> None:
    frozen = {"model": "flights", "feature": "distance", "until": _SOON, "reason": "to see", "key": "2"}
    answer = client.post("/api/v1/decisions/mute", json=frozen)
    assert (answer.status_code, "prices" in answer.text, "freeze" in answer.text) == (409, False, False)


def test_what_happens_to_another_teams_models_is_streamed_to_nobody_else(client: httpx.Client) -> None:
    heard = []
    with client.stream("GET", "/api/v1/events", params={"after": "0"}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data:"):
                heard.append(json.loads(line.removeprefix("data:")))
                if heard[-1]["release_id"] == 10:
                    break
    assert {one["release_id"] for one in heard} == {1, 2, 7, 10}


@pytest.mark.parametrize("path", PAGES)
def test_no_page_shows_another_teams_models(client: httpx.Client, path: str) -> None:
    answer = client.get(path, headers={"accept": "text/html"})
    assert answer.status_code in (200, 403, 404)
    assert leaks(answer.text) == []
    assert answer.status_code != 200 or 'href="/models/eta' not in answer.text
    assert "travel-owners" not in answer.text
