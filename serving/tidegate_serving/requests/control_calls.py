"""The rare calls that clients make on the data port and that Python answers: model status, reload of the config.

The data plane hands over the method's full path and protobuf bytes; the state monitor and the door know the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tidegate_serving.contract.errors import InvalidInput, NotFound, Unsupported, error_of
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import StateChange

GET_MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
RELOAD_CONFIG = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"


class KnownStates(Protocol):
    """Where states are known."""

    def states(self, servable: str) -> Sequence[StateChange]:
        """The latest change of each version, newest version first."""


class ControlCalls:
    """Answers by method path; the door's label resolution turns a label into a version, `reload` answers the request
    for another list of models.
    """

    def __init__(
        self, states: KnownStates, resolve_label: Callable[[str, str], int], reload: Callable[[bytes], bytes]
    ) -> None:
        self._states = states
        self._resolve_label = resolve_label
        self._reload = reload

    def __call__(self, method: str, request: bytes) -> bytes:
        """Protobuf bytes in and out. Raises the contract's errors, Unsupported for a method it does not know."""
        if method == GET_MODEL_STATUS:
            return self._get_model_status(request)
        if method == RELOAD_CONFIG:
            return self._reload(request)
        raise Unsupported(f"method {method} is not served here")

    def _get_model_status(self, request: bytes) -> bytes:
        asked = message("tensorflow.serving.GetModelStatusRequest").FromString(request)
        if not asked.HasField("model_spec"):
            raise InvalidInput("Missing ModelSpec")
        spec = asked.model_spec
        states = self._states.states(spec.name)
        if not states:
            raise NotFound(f"Could not find any versions of model {spec.name}")
        version = self._version(spec)
        chosen = [change for change in states if version is None or change.id.version == version]
        if not chosen:
            raise NotFound(f"Could not find version {version} of model {spec.name}")
        answer = message("tensorflow.serving.GetModelStatusResponse")(
            model_version_status=[_version_status(change) for change in chosen]
        )
        data: bytes = answer.SerializeToString()
        return data

    def _version(self, spec: Any) -> int | None:
        if spec.HasField("version"):
            return int(spec.version.value)
        if not spec.version_label:
            return None
        try:
            return self._resolve_label(spec.name, spec.version_label)
        except NotFound as error:
            raise InvalidInput(f"Unrecognized servable version label: {spec.version_label}") from error


def _version_status(change: StateChange) -> Any:
    status = message("tensorflow.serving.ModelVersionStatus")(version=change.id.version, state=change.state.value)
    status.status.error_code = error_of(change.error_code, "").grpc_code if change.error_code else 0
    status.status.error_message = change.error_message
    return status
