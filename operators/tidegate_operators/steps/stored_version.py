"""What a worker has to know of a version in an object store before it pushes it: which one it is, and its digests."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.manifest import FILE_NAME, digest
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import ServableId, check_name, is_version
from tidegate_serving.sources.objects.store import ObjectStore

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_STALLED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """`verdict_digest` is the SHA-256 of the verdict's file, None where there is none."""

    id: ServableId
    manifest_digest: str
    verdict_digest: str | None


def is_address(text: str) -> bool:
    """Whether it names a place in an object store, not a folder."""
    return _SCHEME.match(text) is not None


def read_stored(address: str) -> StoredVersion:
    """Reads manifest and verdict, not the model; fsspec finds this machine's credentials for the store.

    InvalidInput for an address that is not ROOT/NAME/VERSION, NotFound where no version lies there, Unavailable for a
    store that does not answer, Unsupported without fsspec.
    """
    root, name, number = _parts(address)
    store = ObjectStore(root, {}, _STALLED_SECONDS)
    manifest = store.read(name, number, FILE_NAME)
    try:
        said = json.loads(manifest)
        found = ServableId(str(said["name"]), int(said["version"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{address}/{FILE_NAME} is no manifest ({error}): publish the version again") from error
    if found != ServableId(name, int(number)):
        raise InvalidInput(f"{address} holds {found}: publish it under its own name and number")
    try:
        verdict: str | None = digest(store.read(name, verdict_path(Path(number)).name))
    except NotFound:
        verdict = None
    return StoredVersion(found, digest(manifest), verdict)


def _parts(address: str) -> tuple[str, str, str]:
    rest, _, number = address.rstrip("/").rpartition("/")
    root, _, name = rest.rpartition("/")
    if "@" in root:
        raise InvalidInput(
            f"the address of {name}/{number} has a user or password in it: leave it to the store's files"
        )
    if not is_version(number) or root.endswith(":/") or not root:
        raise InvalidInput(f"address {address!r} is not ROOT/NAME/VERSION: write one such as s3://bucket/models/m/2")
    return root, check_name(name), number
