"""Releases as runs of a DAG in Airflow: started over its REST API under a run id of ours, and followed to their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from tidegate_pipelines.hub.config import AirflowConfig
from tidegate_pipelines.hub.releases.follow import Ended
from tidegate_pipelines.hub.store import ReleaseRow
from tidegate_serving.connection import read_secret
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, Unauthenticated, Unavailable

_TIMEOUT = 20.0
_CONFLICT, _UNAUTHORIZED, _MISSING, _BUSY = 409, 401, 404, 429
_SUCCESS, _FAILED = "success", "failed"


class AirflowRuns:
    """One Airflow, whose `config.dag` releases the version that its run's `conf` names."""

    def __init__(self, config: AirflowConfig) -> None:
        self._config = config
        self._client = httpx.Client(base_url=config.url.rstrip("/"), timeout=_TIMEOUT, trust_env=False)
        self._token = ""

    def start(self, release: ReleaseRow) -> str:
        """The run's id; the same release always gets the same run."""
        run = f"tidegate-release-{release.id}"
        conf = {"model": release.model, "version": release.version, "release": release.id, "settings": release.settings}
        body = {"logical_date": None, "dag_run_id": run, "conf": conf, "note": release.reason or None}
        self._ask("POST", f"/api/v2/dags/{self._config.dag}/dagRuns", body, fine=(_CONFLICT,))
        return run

    def ended(self, run: str) -> Ended | None:
        """How it ended; None while it runs."""
        found = self._ask("GET", f"/api/v2/dags/{self._config.dag}/dagRuns/{run}")
        state = str(found.get("state"))
        if state not in (_SUCCESS, _FAILED):
            return None
        page = f"{self._config.url.rstrip('/')}/dags/{self._config.dag}/runs/{run}"
        return Ended(state == _SUCCESS, f"run {run} of DAG {self._config.dag} in Airflow is {state}: {page}")

    def close(self) -> None:
        """Closes connections."""
        self._client.close()

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, fine: tuple[int, ...] = ()
    ) -> dict[str, Any]:
        if not self._token:
            self._token = self._sign_in()
        answer = self._send(method, path, body, {"Authorization": f"Bearer {self._token}"})
        if answer.status_code == _UNAUTHORIZED:
            self._token = self._sign_in()
            answer = self._send(method, path, body, {"Authorization": f"Bearer {self._token}"})
        if answer.is_success or answer.status_code in fine:
            return self._object(answer)
        where = f"Airflow at {self._config.url} answers {path} with {answer.status_code}"
        if answer.status_code == _MISSING:
            raise FailedPrecondition(f"{where}: check the name of the DAG, dag under [airflow]")
        if answer.is_client_error and answer.status_code != _BUSY:
            raise FailedPrecondition(f"{where}: {answer.text[:500]}")
        raise Unavailable(where)

    def _sign_in(self) -> str:
        config = self._config
        if config.token_file is not None:
            return read_secret(config.token_file)
        if not config.user or config.password_file is None:
            raise InvalidInput("nothing signs in to Airflow: give user and password_file, or token_file, in [airflow]")
        said = {"username": config.user, "password": read_secret(config.password_file, "password_file")}
        answer = self._send("POST", "/auth/token", said, {})
        if answer.is_client_error and answer.status_code != _BUSY:
            raise Unauthenticated(f"Airflow at {config.url} does not let {config.user!r} in: check the password file")
        token = self._object(answer).get("access_token") if answer.is_success else None
        if not isinstance(token, str):
            raise Unavailable(f"Airflow at {config.url} answers /auth/token with {answer.status_code} and no token")
        return token

    def _object(self, answer: httpx.Response) -> dict[str, Any]:
        """Unavailable for what is no JSON, as the page of a proxy that wants somebody to sign in."""
        where = f"Airflow at {self._config.url} answers {answer.url.path} with {answer.status_code}"
        try:
            found = answer.json()
        except ValueError as error:
            raise Unavailable(f"{where} and no JSON: is a proxy before it?") from error
        if not isinstance(found, dict):
            raise Unavailable(f"{where} and no JSON object: check url under [airflow]")
        return found

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        try:
            return self._client.request(method, path, json=body, headers=headers)
        except httpx.HTTPError as error:
            raise Unavailable(f"Airflow at {self._config.url} does not answer ({type(error).__name__})") from error
