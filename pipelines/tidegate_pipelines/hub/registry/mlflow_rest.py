"""The few calls of MLflow's REST API that the hub makes, each with an end in time; importing mlflow takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from tidegate_pipelines.hub.config import MlflowConfig
from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused, Unavailable
from tidegate_serving.sources.mlflow.registry import sign_in

_API = "/api/2.0/mlflow/"
_PAGE = 1000
_MISSING = ("RESOURCE_DOES_NOT_EXIST",)


class Wanted(NamedTuple):
    """A version that is to be released. `registered_at` is when its model was registered, in milliseconds since 1970
    by the registry's clock: a model that is deleted and registered again begins its numbers again."""

    version: int
    registered_at: int


class MlflowRegistry:
    """One tracking server's registry, signed in to as `sign_in` says; safe to share between threads. `address` is
    without name and password.

    Unavailable where it does not answer, or answers with a fault of its own; NotFound for what it does not have,
    PermissionRefused where it lets nothing be written.
    """

    def __init__(self, config: MlflowConfig) -> None:
        self._config = config
        self.address, headers = sign_in(config.address)
        self._client = httpx.Client(
            base_url=self.address + _API, timeout=config.timeout_seconds, headers=headers, trust_env=False
        )

    def wanted(self) -> dict[str, Wanted]:
        """The version of each model that is to be released, by the models' names."""
        models = self._pages("registered-models/search", {})
        tagged = self._tagged() if self._config.tag else {}
        found = {model["name"]: self._wanted(model, tagged) for model in models}
        return {name: wanted for name, wanted in found.items() if wanted is not None}

    def wanted_of(self, model: str) -> Wanted | None:
        """The version of one model that is to be released; None for none, also where the registry has no such model."""
        found = self._model(model)
        if found is None:
            return None
        return self._wanted(found, self._tagged(model) if self._config.tag else {})

    def aliases(self, model: str) -> dict[str, int]:
        """The versions that a model's aliases are set on; none where the registry has no such model."""
        found = self._model(model)
        return {} if found is None else _aliases(found)

    def set_tag(self, model: str, version: int, key: str, value: str) -> None:
        """Of a version."""
        body = {"name": model, "version": str(version), "key": key, "value": value}
        self._ask("POST", "model-versions/set-tag", body)

    def set_alias(self, model: str, alias: str, version: int) -> None:
        """Sets it on a version, from wherever it was."""
        self._ask("POST", "registered-models/alias", {"name": model, "alias": alias, "version": str(version)})

    def close(self) -> None:
        """Closes connections."""
        self._client.close()

    def _model(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._ask("GET", "registered-models/get", {"name": name})["registered_model"]
        except NotFound:
            return None
        return found

    def _wanted(self, model: Mapping[str, Any], tagged: Mapping[str, int]) -> Wanted | None:
        version = tagged.get(model["name"]) if self._config.tag else _aliases(model).get(self._config.alias)
        return None if version is None else Wanted(version, int(model["creation_timestamp"]))

    def _tagged(self, model: str | None = None) -> dict[str, int]:
        key, _, value = self._config.tag.partition("=")
        query = f"tags.`{_quoted(key, '`')}` = '{_quoted(value, chr(39))}'"
        if model is not None:
            query += f" AND name = '{_quoted(model, chr(39))}'"
        newest: dict[str, int] = {}
        for one in self._pages("model-versions/search", {"filter": query}):
            newest[one["name"]] = max(int(one["version"]), newest.get(one["name"], 0))
        return newest

    def _pages(self, path: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
        what = "registered_models" if path.startswith("registered") else "model_versions"
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            page = {"page_token": token} if token else {}
            answer = self._ask("GET", path, {**query, "max_results": str(_PAGE), **page})
            found += answer.get(what, [])
            token = answer.get("next_page_token", "")
            if not token:
                return found

    def _ask(self, method: str, path: str, values: Mapping[str, str]) -> dict[str, Any]:
        where = f"MLflow at {self.address}"
        sent: dict[str, Any] = {"params": values} if method == "GET" else {"json": values}
        try:
            answer = self._client.request(method, path, **sent)
        except httpx.HTTPError as error:
            raise Unavailable(f"{where} does not answer ({type(error).__name__}: {error})") from error
        if answer.is_success:
            return _object(answer, where)
        said = _said(answer)
        if said.get("error_code") in _MISSING:
            raise NotFound(f"{where}: {said.get('message', 'it is not there')}")
        message = f"{where} answers {path} with {answer.status_code}: {said.get('message', answer.reason_phrase)}"
        if answer.status_code == 403 and method == "POST":
            raise PermissionRefused(message)
        if answer.status_code in (400, 422):
            raise InvalidInput(message)
        raise Unavailable(message)


def _aliases(model: Mapping[str, Any]) -> dict[str, int]:
    return {one["alias"]: int(one["version"]) for one in model.get("aliases", [])}


def _quoted(text: str, mark: str) -> str:
    if mark in text:
        raise InvalidInput(f"{text!r} has a {mark} in it, which MLflow's search cannot be asked for: take it out")
    return text


def _object(answer: httpx.Response, where: str) -> dict[str, Any]:
    """Unavailable for what is no JSON, as the page of a proxy that wants somebody to sign in."""
    try:
        found = answer.json()
    except ValueError as error:
        raise Unavailable(f"{where} answers {answer.status_code} with no JSON: is a proxy before it?") from error
    if not isinstance(found, dict):
        raise Unavailable(f"{where} answers {answer.status_code} with no JSON object: check its address")
    return found


def _said(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
