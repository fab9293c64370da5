"""Points a KServe InferenceService to an admitted version, and notes on it by which verdict.

One JSON merge patch of storageUri and annotations; what else the service says stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tidegate_operators.steps.export.admitted import AdmittedVersion
from tidegate_operators.steps.export.kubernetes_api import KubernetesApi
from tidegate_operators.steps.stored_version import is_address, read_stored
from tidegate_serving.contract.errors import InvalidInput, Tampered

ANNOTATIONS = "tidegate/"
_UNREADABLE = ("pvc://", "hf://", "oci://")


@dataclass(frozen=True, slots=True)
class KServePatch:
    """The patch, where it goes, and the generation of the service that it made; None where nothing was sent."""

    path: str
    patch: Mapping[str, Any]
    generation: int | None = None


def patch_kserve(
    version: AdmittedVersion,
    *,
    service: str,
    storage_uri: str,
    namespace: str = "",
    api: KubernetesApi | None = None,
) -> KServePatch:
    """Patches InferenceService `service` so that it loads the version from `storage_uri`, ROOT/NAME/VERSION in an
    object store, whose manifest has to be the one that the verdict was signed for; a `pvc://` cannot be looked into.
    Without `api` nothing is sent. Patching twice changes nothing.

    Tampered where other files lie there, NotFound for no service or version, PermissionRefused where the API refuses.
    """
    if not is_address(storage_uri):
        raise InvalidInput(f"storage_uri {storage_uri!r} is no address: write one such as s3://bucket/models/NAME/1")
    if not storage_uri.startswith(_UNREADABLE):
        stored = read_stored(storage_uri)
        if stored.manifest_digest != version.manifest_digest:
            raise Tampered(f"{storage_uri} has other files than {version.directory}: upload the version again")
    space = namespace or (api.namespace if api is not None else "default")
    path = f"/apis/serving.kserve.io/v1beta1/namespaces/{quote(space, '')}/inferenceservices/{quote(service, '')}"
    patch = {
        "metadata": {
            "annotations": {
                f"{ANNOTATIONS}version": str(version.manifest.id),
                f"{ANNOTATIONS}manifest-sha256": version.manifest_digest,
                f"{ANNOTATIONS}verdict-sha256": version.verdict_digest,
                f"{ANNOTATIONS}verdict": version.outcome,
            }
        },
        "spec": {"predictor": {"model": {"storageUri": storage_uri.rstrip("/")}}},
    }
    if api is None:
        return KServePatch(path, patch)
    made = api.patch(f"{path}?fieldManager=tidegate", patch)
    return KServePatch(path, patch, int(made["metadata"].get("generation", 0)))
