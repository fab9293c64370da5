"""MLflow on both sides of the gates: a registered version is published from the registry, and its verdict told there.

A version is published under the registry's number; a verdict becomes tags, metrics and artifacts there. MLflow itself
is imported when called.
"""

from __future__ import annotations

import re
import socket
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.publish import Publication, PublishedVersion, publish
from tidegate_operators.steps.verdict_numbers import verdict_numbers
from tidegate_serving.admission import Verdict
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unavailable, Unsupported
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.contract.repository import report_directory, verdict_path
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature
from tidegate_serving.sources.mlflow.registry import sign_in
from tidegate_validation.progress import SILENT, Progress

if TYPE_CHECKING:
    from mlflow import MlflowClient

PLATFORM = "mlflow"
_PREFIX = "tidegate"
_SOURCE = "mlflow.source"
_TAG_LETTERS = 4900
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    """One registered version: the tracking server's address, the model's name, and a number or an alias."""

    uri: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} in MLflow at {without_credentials(self.uri)}"


def publish_registered(
    registered: RegisteredVersion,
    *,
    repository: Path,
    training: Any = None,
    sample: Any = None,
    label: str | None = None,
    event_time: str | None = None,
    servable: str | None = None,
    progress: Progress = SILENT,
) -> PublishedVersion:
    """Downloads a registered version and publishes it under the registry's number, with the run's metrics as metadata,
    as `servable` where that is given, else under the registry's name.

    Signatures and the example come from the MLmodel file where it has them, else from `training` or `sample`. NotFound
    for a version that is not registered, Unavailable for a server that does not answer, else as `publish`.
    """
    client, found = _find(registered)
    with tempfile.TemporaryDirectory(prefix="tidegate-mlflow-") as folder:
        files = _download(client, registered, found, Path(folder))
        return publish(
            Publication(
                files=files,
                servable=servable or registered.name,
                version=int(found.version),
                platform=PLATFORM,
                repository=repository,
                training=training,
                sample=sample,
                label=label,
                event_time=event_time,
                metadata=_provenance(client, registered, found),
            ),
            progress,
        )


def check_server_answers(uri: str) -> None:
    """Raises Unavailable where an address refuses connections, or nobody has it: at once, while MLflow's own client
    tries for half a minute. It is asked as that client does, by the same proxies, but without credentials; whatever
    else comes of it is left to that client, and so are addresses of other kinds."""
    if not uri.startswith(("http://", "https://")):
        return
    import requests
    import urllib3

    address = without_credentials(uri)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
        try:
            requests.get(
                f"{address.rstrip('/')}/health",
                timeout=_SECONDS,
                allow_redirects=False,
                verify=False,
                stream=True,
                auth=lambda request: request,  # else those of ~/.netrc are sent
            ).close()
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            nobody = _nobody(error)
            if nobody is None:
                return
            raise Unavailable(
                f"MLflow at {address} does not answer ({nobody}): start it, or name another by --uri or "
                "MLFLOW_TRACKING_URI"
            ) from error


def without_credentials(text: str) -> str:
    """An address, or words with addresses in them, without the names and passwords that may stand in these."""
    return re.sub(r"://[^/?#\s]*@", "://", text)


def _nobody(error: Exception) -> OSError | None:
    """Of an error of `requests` the refused connection, or the name that is not found; None for others, such as those
    of a proxy and of a name server that is away."""
    from urllib3.exceptions import MaxRetryError, NewConnectionError

    retried = error.args[0] if error.args else None
    if not isinstance(retried, MaxRetryError) or not isinstance(retried.reason, NewConnectionError):
        return None
    cause = retried.reason.__cause__
    if isinstance(cause, socket.gaierror):
        return None if cause.errno == socket.EAI_AGAIN else cause
    return cause if isinstance(cause, ConnectionRefusedError) else None


def registered_number(registered: RegisteredVersion) -> int:
    """The number that an alias stands for now, or the number itself. Raises as `publish_registered`."""
    return int(_find(registered)[1].version)


def published_before(registered: RegisteredVersion, directory: Path) -> bool:
    """Whether `directory` is a version that was published from this registered version, which has a number, as the
    registry has it now: under a name that was deleted and registered anew, numbers begin again. Raises as
    `publish_registered`."""
    if not (directory / FILE_NAME).is_file():
        return False
    metadata = read_manifest(directory)[0].metadata
    came_from = metadata.get("mlflow.uri"), metadata.get("mlflow.model")
    if came_from != (without_credentials(registered.uri), _model_uri(registered.name, registered.version)):
        return False
    return metadata.get(_SOURCE) == str(_find(registered)[1].source)


def record_verdict(
    registered: RegisteredVersion, verdict: Verdict, directory: Path | None = None, *, servable: str | None = None
) -> dict[str, float]:
    """Tells MLflow what the gates said; returns the metrics that were written.

    The registered version gets the tags `tidegate.outcome`, `.allowed`, `.sentence` and `.manifest_digest`; its run, if
    it has one, a metric for each finding with a number, and, where `directory` is the version's, the signed verdict and
    the report as artifacts. `servable` is what the version was published as, where that is not the registry's name.
    """
    client, found = _find(registered)
    if (verdict.id.name, verdict.id.version) != (servable or registered.name, int(found.version)):
        raise InvalidInput(f"the verdict is about {verdict.id}, not {registered}: record it where it belongs")
    tags = {
        "outcome": verdict.outcome.value,
        "allowed": str(verdict.allowed).lower(),
        "sentence": verdict.sentence[:_TAG_LETTERS],
        "manifest_digest": verdict.manifest_digest,
    }
    for key, value in tags.items():
        client.set_model_version_tag(registered.name, found.version, f"{_PREFIX}.{key}", value)
    metrics = {f"{_PREFIX}.{key}": number for key, number in verdict_numbers(verdict)}
    if found.run_id:
        _log(client, found.run_id, metrics, directory)
    return metrics


def write_signature(registered: RegisteredVersion, signatures: Mapping[str, Signature]) -> bool:
    """Gives the logged model our default signature where it has none; whether it got it."""
    import mlflow

    _, found = _find(registered)
    source = str(found.source)
    mlflow.set_tracking_uri(registered.uri)
    if mlflow.models.get_model_info(source).signature is not None:
        return False
    mlflow.models.set_signature(source, mlflow_signature(signatures[SERVING_DEFAULT]))
    return True


def mlflow_signature(signature: Signature) -> Any:
    """Our signature as an `mlflow.models.ModelSignature`: columns where all are one value a row, else tensors."""
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema, TensorSpec

    columns = {
        "bool": DataType.boolean,
        "int8": DataType.integer,
        "int16": DataType.integer,
        "int32": DataType.integer,
        "uint8": DataType.integer,
        "uint16": DataType.integer,
        "int64": DataType.long,
        "uint32": DataType.long,
        "float32": DataType.float,
        "float64": DataType.double,
        "string": DataType.string,
    }

    def schema(specs: Any) -> Any:
        if all(spec.shape == (-1,) and spec.dtype in columns for spec in specs):
            return Schema([ColSpec(columns[spec.dtype], spec.name) for spec in specs])
        kinds = {spec.name: np.dtype("str" if spec.dtype == "string" else spec.dtype) for spec in specs}
        return Schema([TensorSpec(kinds[spec.name], spec.shape, spec.name) for spec in specs])

    return ModelSignature(schema(signature.inputs), schema(signature.outputs))


def _find(registered: RegisteredVersion) -> tuple[MlflowClient, Any]:
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise Unsupported("MLflow's registry needs mlflow: install it with `pip install 'tidegate[mlflow]'`") from error
    if registered.uri.startswith(("http://", "https://")):
        sign_in(registered.uri)  # refuses what is no server's, without what may be a password
    try:
        client = MlflowClient(registered.uri)
    except MlflowException as error:
        raise InvalidInput(
            f"MLflow's address {without_credentials(registered.uri)!r} cannot be used: name its tracking server, such "
            f"as http://127.0.0.1:5000 ({without_credentials(str(error))})"
        ) from error
    with _asking(registered, f"{registered} is not registered"):
        if registered.version.isdigit():
            return client, client.get_model_version(registered.name, registered.version)
        return client, client.get_model_version_by_alias(registered.name, registered.version.removeprefix("@"))


@contextmanager
def _asking(registered: RegisteredVersion, missing: str) -> Iterator[None]:
    """NotFound, with `missing` as its words, for what the server does not have; its other errors are Unavailable."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise NotFound(f"{missing}: {error.message}") from error
        raise Unavailable(without_credentials(f"MLflow at {registered.uri} failed: {error.message}")) from error


def _download(client: MlflowClient, registered: RegisteredVersion, found: Any, folder: Path) -> Path:
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    uri = _model_uri(registered.name, found.version)
    try:
        uri = client.get_model_version_download_uri(registered.name, found.version)
        return Path(download_artifacts(uri, dst_path=str(folder), tracking_uri=registered.uri))
    except (MlflowException, OSError) as error:
        words = f"the files of {registered} cannot be downloaded from {uri}: {error}"
        raise Unavailable(without_credentials(words)) from error


def _model_uri(name: str, version: object) -> str:
    return f"models:/{name}/{version}"


def _provenance(client: MlflowClient, registered: RegisteredVersion, found: Any) -> dict[str, str]:
    metadata = {"mlflow.uri": without_credentials(registered.uri)}
    metadata["mlflow.model"] = _model_uri(registered.name, found.version)
    metadata[_SOURCE] = str(found.source)
    if found.run_id:
        metadata["mlflow.run_id"] = found.run_id
        with _asking(registered, f"the run of {registered} is gone"):
            metrics = client.get_run(found.run_id).data.metrics
        ours = f"{_PREFIX}."
        metadata |= {f"mlflow.metric.{key}": repr(value) for key, value in metrics.items() if not key.startswith(ours)}
    return metadata


def _log(client: MlflowClient, run_id: str, metrics: Mapping[str, float], directory: Path | None) -> None:
    for key, value in metrics.items():
        client.log_metric(run_id, key, value)
    if directory is None:
        return
    for path in (verdict_path(directory), report_directory(directory)):
        if path.is_dir():
            client.log_artifacts(run_id, str(path), f"{_PREFIX}/report")
        elif path.is_file():
            client.log_artifact(run_id, str(path), _PREFIX)
