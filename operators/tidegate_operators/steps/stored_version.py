"""Versions in an object store, for workers that have no folder of the engine's root: known, uploaded and fetched.

What is fetched is checked against its manifest, and kept in this user's cache for the next time.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.admission import Standing
from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, NotFound
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, digest, read_manifest
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import ServableId, check_name, is_version
from tidegate_serving.files import hold, make_folder
from tidegate_serving.sources.objects.cache import VersionCache
from tidegate_serving.sources.objects.mirror import Mirror
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


def upload(directory: Path, store: str) -> str:
    """Copies a version, the manifest last, and its verdict into the model repository at `store` (s3://bucket/models),
    and returns its address there. What is there already is not copied again.

    AlreadyExists where other files have that number, Unavailable for a store that does not answer.
    """
    manifest = read_manifest(directory)[0]
    name, number = manifest.id.name, str(manifest.id.version)
    files, address, is_there = _place(directory, store)
    if not is_there:
        for entry in manifest.files:
            files.put(directory / entry.path, name, number, *entry.path.split("/"))
        files.put(directory / FILE_NAME, name, number, FILE_NAME)
    verdict = verdict_path(directory)
    if verdict.is_file():
        files.put(verdict, name, verdict.name)
    return address


def check_upload(directory: Path, store: str) -> None:
    """What `upload` would raise, before what takes long: whether the store answers, and the version's place there is
    free."""
    _place(directory, store)


def _place(directory: Path, store: str) -> tuple[ObjectStore, str, bool]:
    """The store, the version's address in it, and whether the version is there."""
    manifest, found = read_manifest(directory)
    name, number = manifest.id.name, str(manifest.id.version)
    address = f"{store.rstrip('/')}/{name}/{number}"
    files = ObjectStore(_parts(address)[0], {}, _STALLED_SECONDS)
    try:
        there = digest(files.read(name, number, FILE_NAME))
    except NotFound:
        return files, address, False
    if there != found:
        raise AlreadyExists(f"{address} has other files: publish {directory} under a number that is free")
    return files, address, True


def store_of(address: str) -> str:
    """The model repository that a version's address lies in, as `upload` takes it. InvalidInput for no such address."""
    return _parts(address)[0]


def on_this_machine(place: Path | str) -> Path:
    """The folder of a version that is named by its folder, or by its address: then a verified copy, as by `fetch`.

    NotFound for a folder that is not here.
    """
    if isinstance(place, str) and is_address(place):
        return fetch(place, read_stored(place).manifest_digest)
    folder = Path(place)
    if not folder.is_dir():
        raise NotFound(why_missing(folder.absolute()))
    return folder


def why_missing(directory: Path) -> str:
    """What is wrong where a version's directory is not on this machine, and what to do."""
    if directory.parent.parent.is_dir():
        return f"{directory} is gone, its repository is here: it was deleted, publish the version again"
    return (
        f"{directory} is not on this machine: mount the model repository here, at the path that the engine has too, or "
        "name a store"
    )


def fetch(address: str, manifest_digest: str) -> Path:
    """A verified copy of the version at an address, whose manifest has this SHA-256, in this user's cache, which may be
    emptied at any time.

    Tampered where a file differs from its manifest or the manifest from the digest, else raises as `read_stored`.
    """
    root, name, number = _parts(address)
    cached = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tidegate" / digest(root.encode())[:16]
    identity = ServableId(name, int(number))
    make_folder(cached.parent, "cache")
    with hold(cached.with_suffix(".lock")):
        store = ObjectStore(root, {}, _STALLED_SECONDS)
        mirror = Mirror(store, VersionCache(cached, 0, store.url), _ServedAlready())
        mirror.open()
        try:
            return mirror.ready(identity, manifest_digest) or mirror.bring(identity, manifest_digest, set())
        finally:
            mirror.close()


class _ServedAlready:
    """Lets in what an engine named with its digest, and so has let in itself."""

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """Always."""

    def vouch(self, digests: Collection[str]) -> None:
        """Nothing is refused."""

    def standing(self, digest: str) -> Standing:
        """There is nothing to say."""
        return Standing()

    def mark(self) -> object:
        """Never changes."""
        return None


def _parts(address: str) -> tuple[str, str, str]:
    rest, _, number = address.rstrip("/").rpartition("/")
    root, _, name = rest.rpartition("/")
    if "@" in root:
        raise InvalidInput(
            f"the address of {name}/{number} has a user or password in it: leave it to the store's files"
        )
    if not is_version(number) or root.endswith(":/") or not root or {".", ".."} & set(root.split("/")):
        raise InvalidInput(f"address {address!r} is not ROOT/NAME/VERSION: write one such as s3://bucket/models/m/2")
    return root, check_name(name), number
