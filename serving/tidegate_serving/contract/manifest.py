"""What a version consists of: every file with size and SHA-256, how it is called, and what it was made for.

A publisher writes `manifest.json` last, so a version directory without one is not complete and never loads; the
engine and the gates read it, and a verdict is bound to the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, NotFound, Tampered
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.plain_file import open_at_once, read_plain
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import Signature

FILE_NAME = "manifest.json"
VERSION = "1"
CLASSES = "classes"
"""The metadata that names the classes of an output's columns in order, as JSON or by commas."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of the version: path relative to its directory with '/', size in bytes, SHA-256 in hex."""

    path: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path).parts
        if not parts or PurePosixPath(self.path).is_absolute() or ".." in parts:
            raise InvalidInput(f"file {self.path!r} of a manifest must lie inside the version directory")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole manifest. `describe_files` lists its files, `to_bytes` is what a publisher writes last.

    `example` is one row per input, by name, used for warm-up. `event_time` names the input that carries the time of
    the event in Unix seconds, if there is one; it may be an input that the model itself does not use. `label` names the
    column that training data carries as the truth. `metadata` is free text by name.
    """

    id: ServableId
    platform: str
    signatures: Mapping[str, Signature]
    files: tuple[FileEntry, ...]
    created_at: str
    event_time: str | None = None
    label: str | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        listed = Counter(PurePosixPath(entry.path) for entry in self.files)
        if len(listed) < len(self.files):
            raise InvalidInput(f"file {str(listed.most_common(1)[0][0])!r} of a manifest is listed more than once")

    def to_bytes(self) -> bytes:
        """The exact bytes that go to disk and that the digest covers."""
        document = {
            "format": f"tidegate.manifest/{VERSION}",
            "name": self.id.name,
            "version": self.id.version,
            "platform": self.platform,
            "created_at": self.created_at,
            "signatures": {name: signature.to_dict() for name, signature in self.signatures.items()},
            "event_time": self.event_time,
            "label": self.label,
            "example": dict(self.example),
            "metadata": dict(self.metadata),
            "files": [{"path": entry.path, "size": entry.size, "sha256": entry.sha256} for entry in self.files],
        }
        return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def read_manifest(directory: Path) -> tuple[Manifest, str]:
    """The manifest of a version directory and the digest of its bytes.

    Raises NotFound when there is none, Tampered when it or its bytes are no manifest, Unsupported for a foreign format.
    """
    path = directory / FILE_NAME
    try:
        data = read_plain(path, "publish the version again")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(_why_none(directory)) from error
    manifest = manifest_of(data, str(path))
    for entry in manifest.files:
        if not entry.sha256:
            raise Tampered(f"{path} lists {entry.path} without its SHA-256: publish the version again")
    return manifest, digest(data)


def no_version_but_some(directory: Path) -> str | None:
    """What to say of a folder that is no version but holds some, one or two levels below, as a model's folder and a
    model repository do; None where it holds none."""
    found = [*directory.glob(f"*/{FILE_NAME}"), *directory.glob(f"*/*/{FILE_NAME}")]
    versions = sorted(path.parent for path in found)
    if not versions:
        return None
    return f"{directory} is no version but holds {len(versions)}: name one, such as {versions[-1]}"


def _why_none(directory: Path) -> str:
    if not directory.exists():
        return f"{directory} is missing: mend the path, or publish it again"
    if not directory.is_dir():
        return f"{directory} is a file: name a version's directory, which `tidegate publish` makes of a model"
    if told := no_version_but_some(directory):
        return told
    return f"{directory} has no {FILE_NAME}: the version is not complete, publish it again"


def manifest_of(data: bytes, where: str) -> Manifest:
    """The manifest that these bytes are. Raises Tampered, naming where they come from, when they are none, Unsupported
    for a foreign format."""
    try:
        document = json.loads(data)
    except MALFORMED as error:
        raise Tampered(f"{where} is not JSON ({error}): publish the version again") from error
    if not isinstance(document, dict):
        raise Tampered(f"{where} holds no object: publish the version again")
    check_format(document, kind="manifest", version=VERSION, where=where)
    try:
        return _from_document(document)
    except (*MALFORMED, InvalidInput) as error:
        raise Tampered(f"{where} cannot be used ({error}): publish the version again") from error


def _from_document(document: Mapping[str, Any]) -> Manifest:
    return Manifest(
        id=ServableId(str(document["name"]), int(document["version"])),
        platform=str(document["platform"]),
        signatures={name: Signature.from_dict(data) for name, data in document["signatures"].items()},
        files=tuple(FileEntry(entry["path"], int(entry["size"]), str(entry["sha256"])) for entry in document["files"]),
        created_at=str(document["created_at"]),
        event_time=_text_or_none(document["event_time"]),
        label=_text_or_none(document["label"]),
        example=dict(document["example"]),
        metadata=dict(document["metadata"]),
    )


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def describe_files(directory: Path) -> tuple[FileEntry, ...]:
    """Entries for every file under `directory` but the manifest itself, by path. Links are refused by name."""
    entries = []
    for path in sorted(directory.rglob("*")):
        if path.is_symlink():
            raise InvalidInput(f"{path} is a link: a version directory holds plain files only, copy it in")
        if path.is_file() and path != directory / FILE_NAME:
            size, sha256 = measure(path)
            entries.append(FileEntry(path.relative_to(directory).as_posix(), size, sha256))
    return tuple(entries)


def measure(path: Path) -> tuple[int, str]:
    """Size in bytes and SHA-256 (lower-case hexadecimal) of a file."""
    sha = hashlib.sha256()
    size = 0
    with open_at_once(path) as file:
        while chunk := file.read(_CHUNK):
            sha.update(chunk)
            size += len(chunk)
    return size, sha.hexdigest()


def verify_files(manifest: Manifest, directory: Path, measure: Callable[[Path], tuple[int, str]] = measure) -> None:
    """Raises Tampered, naming the file, unless `directory` holds exactly the listed bytes and nothing more.

    `measure` gives a file's size and SHA-256.
    """
    listed = {entry.path for entry in manifest.files} | {FILE_NAME}
    for found in _under(directory):
        relative = found.path.removeprefix(f"{directory}{os.sep}").replace(os.sep, "/")
        if found.is_symlink():
            raise Tampered(f"{found.path} of {manifest.id} is a link: put the file itself there, or publish again")
        if found.is_dir():
            continue
        if not found.is_file():
            raise Tampered(f"{found.path} of {manifest.id} is no plain file: remove it, or publish the version again")
        if relative not in listed:
            raise Tampered(f"{found.path} is not listed in the manifest of {manifest.id}: remove it, or publish again")
    for entry in manifest.files:
        path = directory / entry.path
        if not path.is_file():
            raise Tampered(f"{path}, listed in the manifest of {manifest.id}, is missing: publish the version again")
        if path.stat().st_size != entry.size or measure(path) != (entry.size, entry.sha256):
            raise Tampered(f"{path} differs from the manifest of {manifest.id}: publish the version again")


def _under(directory: Path | str) -> Iterator[os.DirEntry[str]]:
    """Everything under a directory, by name; links are not followed."""
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _under(entry.path)
