"""Releases as runs of a pipeline in Kubeflow: started over its API under a name of ours, and followed to their end."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.releases.follow import Ended
from tidegate_pipelines.hub.store import ReleaseRow
from tidegate_serving.connection import read_secret
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, Unauthenticated, Unavailable
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId

if TYPE_CHECKING:
    from kfp import Client

T = TypeVar("T")
_SUCCEEDED = "SUCCEEDED"
_OVER = (_SUCCEEDED, "FAILED", "CANCELED", "SKIPPED")
_REFUSED, _MISSING, _BUSY = (401, 403), 404, 429


class _TokenFile:
    """What Kubeflow's client asks for its token before each call: the file may have another one by now."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def refresh_api_key_hook(self, config: Any) -> None:
        """Puts the token into the client's config."""
        config.api_key["authorization"] = read_secret(self._path)


class KubeflowRuns:
    """One Kubeflow, in which the pipeline of `kubeflow.package` releases what its parameters name."""

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self._client: Client | None = None
        self._experiment = ""

    def start(self, release: ReleaseRow) -> str:
        """The run's id; the same release always gets the same run, which is looked for by its name first."""
        name, settings = f"tidegate-release-{release.id}", self._config.kubeflow
        same = {"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": name}]}

        def begin(client: Client) -> str:
            known = client.list_runs(experiment_id=self._experiment, filter=json.dumps(same)).runs
            if known:
                return str(known[0].run_id)
            package, given = str(settings.package), self._parameters(release)
            return str(client.run_pipeline(self._experiment, name, package, given, enable_caching=False).run_id)

        return self._ask(begin)

    def ended(self, run: str) -> Ended | None:
        """How it ended; None while it runs."""
        state = str(self._ask(lambda client: client.get_run(run)).state)
        if state not in _OVER:
            return None
        page = f"{self._config.kubeflow.url.rstrip('/')}/#/runs/details/{run}"
        return Ended(state == _SUCCEEDED, f"run {run} in Kubeflow is {state}: {page}")

    def close(self) -> None:
        """Nothing stays open between calls."""

    def _parameters(self, release: ReleaseRow) -> dict[str, Any]:
        """The pipeline's, with the release's own in the place of their names in braces."""
        root = self._config.release_of(release.model).repository or self._config.repository
        known: dict[str, Any] = {
            "{model}": release.model,
            "{version}": release.version,
            "{release}": release.id,
            "{directory}": str(version_directory(root, ServableId(release.model, release.version))),
            "{settings}": release.settings,
        }
        given = self._config.kubeflow.parameters
        return {name: known.get(value, value) if isinstance(value, str) else value for name, value in given.items()}

    def _ask(self, call: Callable[[Client], T]) -> T:
        """What a call says. Unavailable where Kubeflow does not answer, FailedPrecondition where it will not."""
        try:
            from kfp_server_api.exceptions import ApiException, ApiTypeError, ApiValueError
            from urllib3.exceptions import HTTPError
        except ImportError as error:
            raise InvalidInput("releases in Kubeflow need its client: install tidegate[kfp]") from error
        where = f"Kubeflow at {self._config.kubeflow.url}"
        try:
            return call(self._connected())
        except (HTTPError, OSError, TimeoutError) as error:
            raise Unavailable(f"{where} does not answer ({type(error).__name__})") from error
        except ApiException as error:
            said = f"{where} answers with {error.status}: {_words(error.body)}"
            if error.status in _REFUSED:
                raise Unauthenticated(f"{said}; check token_file under [kubeflow]") from error
            if error.status is not None and 400 <= error.status < 500 and error.status != _BUSY:
                raise FailedPrecondition(said) from error
            raise Unavailable(said) from error
        except (ApiTypeError, ApiValueError) as error:
            raise FailedPrecondition(f"{where} cannot be asked so: {error}") from error

    def _connected(self) -> Client:
        if self._client is None:
            from kfp import Client

            settings = self._config.kubeflow
            token = None if settings.token_file is None else _TokenFile(settings.token_file)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # That it speaks to version 2 alone.
                client = Client(host=settings.url, namespace=settings.namespace or "kubeflow", credentials=token)
            found = client.create_experiment(settings.experiment, namespace=settings.namespace or None)
            self._client, self._experiment = client, str(found.experiment_id)
        return self._client


def _words(body: Any) -> str:
    try:
        return str(json.loads(body)["message"])[:500]
    except (KeyError, TypeError, ValueError):
        return str(body)[:500]
