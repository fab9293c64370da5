"""An object store behind fsspec, each call of which ends within a deadline.

A call that stalls goes on on a thread of its own, so that a store that hangs never blocks a thread that others need.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tidegate_serving.contract.errors import (
    InvalidInput,
    NotFound,
    ResourceExhausted,
    Tampered,
    TidegateError,
    Unavailable,
    Unsupported,
)
from tidegate_serving.contract.manifest import FileEntry
from tidegate_serving.redaction import without_secrets

T = TypeVar("T")
_CHUNK = 4 << 20
_DOCUMENT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Child:
    """One entry of a folder: its last name, whether it is a folder, and what tells one state of a file from another."""

    name: str
    is_folder: bool
    stamp: tuple[str, ...] = ()


class ObjectStore:
    """One root in an object store. Every call ends within `timeout_seconds`, and while copying every 4 MiB do.

    Raises Unavailable for a store that does not answer or fails, NotFound for what is not there.
    """

    def __init__(self, url: str, options: Mapping[str, Any], timeout_seconds: float) -> None:
        self.url = without_secrets(url.rstrip("/"))
        self._timeout = timeout_seconds
        self._closed = False
        self._files, self._root = _open(url.rstrip("/"), options)

    def close(self) -> None:
        """Answers no further call; a fetch ends at its next 4 MiB."""
        self._closed = True

    def children(self, *path: str) -> list[Child]:
        """What lies in a folder, by name. NotFound where it is not there; in many stores an empty one is not."""
        place = self._place(path)

        def listed() -> list[dict[str, Any]]:
            self._files.invalidate_cache()
            found: list[dict[str, Any]] = self._files.ls(place, detail=True)
            return found

        entries = self._within(listed, f"listing {self._say(path)}")
        children = (_child(entry) for entry in entries if entry["name"].strip("/") != place.strip("/"))
        return sorted(children, key=lambda child: child.name)

    def read(self, *path: str) -> bytes:
        """A small document."""
        place = self._place(path)

        def document() -> bytes:
            with self._files.open(place, "rb") as file:
                data: bytes = file.read(_DOCUMENT_BYTES)
            return data

        return self._within(document, f"reading {self._say(path)}")

    def fetch(self, path: tuple[str, ...], entry: FileEntry, target: Path) -> None:
        """Copies a file that a manifest lists to `target`; Tampered where size or SHA-256 differ, and then no file.

        ResourceExhausted where the disk is full.
        """
        where = self._say(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("wb") as local:
                sha, size = hashlib.sha256(), 0
                for chunk in self._chunks(path):
                    size += len(chunk)
                    if size > entry.size:
                        raise Tampered(f"{where} is longer than the {entry.size} bytes of its manifest: {_AGAIN}")
                    sha.update(chunk)
                    local.write(chunk)
            if size != entry.size:
                raise Tampered(f"{where} ended after {size} of the {entry.size} bytes of its manifest: {_AGAIN}")
            if sha.hexdigest() != entry.sha256:
                raise Tampered(f"{where} differs from the SHA-256 of its manifest: {_AGAIN}")
        except BaseException as error:
            target.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise ResourceExhausted(
                    f"the disk of the cache {target.parent} is full, {where} did not fit: make room, or move the cache"
                ) from error
            raise

    def put(self, source: Path, *path: str) -> None:
        """Copies a local file there; it is seen once it is whole, where the store writes whole objects."""
        place, where = self._place(path), f"writing {self._say(path)}"
        parent = place.rpartition("/")[0]
        self._within(lambda: self._files.makedirs(parent, exist_ok=True), where)
        file = self._within(lambda: self._files.open(place, "wb"), where)
        with source.open("rb") as local:
            while chunk := local.read(_CHUNK):
                self._within(functools.partial(file.write, chunk), where)
        self._within(file.close, where)

    def _chunks(self, path: tuple[str, ...]) -> Iterator[bytes]:
        place, where = self._place(path), f"fetching {self._say(path)}"
        file = self._within(lambda: self._files.open(place, "rb", cache_type="none"), where)
        try:
            while chunk := self._within(lambda: file.read(_CHUNK), where):
                yield chunk
        finally:
            file.close()

    def _place(self, path: tuple[str, ...]) -> str:
        return "/".join([self._root.rstrip("/"), *path])

    def _say(self, path: tuple[str, ...]) -> str:
        return "/".join([self.url, *path])

    def _within(self, call: Callable[[], T], what: str) -> T:
        """The call's result, or Unavailable once its time is over; what stalls ends on a thread of its own."""
        if self._closed:
            raise Unavailable(f"{what} was broken off: its source was stopped")
        box: list[T] = []
        failed: list[BaseException] = []
        done = threading.Event()

        def run() -> None:
            try:
                box.append(call())
            except BaseException as error:
                failed.append(error)
            finally:
                done.set()

        threading.Thread(target=run, name="tidegate-object-store", daemon=True).start()
        if not done.wait(self._timeout):
            raise Unavailable(
                f"{what} took more than {self._timeout:g} s: the object store stalls, see whether it runs"
            )
        if failed:
            raise _ours(failed[0], what) from failed[0]
        return box[0]


_AGAIN = "upload the version again"


def _open(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise Unsupported("an object store needs fsspec: install it with `pip install 'tidegate[objects]'`") from error
    if "://" not in url:
        raise InvalidInput(f"object store {url!r} is no URL: write one such as s3://bucket/models")
    try:
        files, root = url_to_fs(url, use_listings_cache=False, skip_instance_cache=True, **options)
    except ImportError as error:
        raise Unsupported(f"object store {url} needs a library that is not installed: {error}") from error
    except ValueError as error:
        raise InvalidInput(
            f"object store {url} cannot be used ({error}): write one such as s3://bucket/models"
        ) from error
    return files, str(root)


def _child(entry: Mapping[str, Any]) -> Child:
    stamp = tuple(
        str(entry[key]) for key in ("size", "ETag", "etag", "mtime", "LastModified", "md5Hash") if key in entry
    )
    return Child(entry["name"].rstrip("/").rpartition("/")[2], entry["type"] == "directory", stamp)


def _ours(error: BaseException, what: str) -> TidegateError:
    if isinstance(error, TidegateError):
        return error
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{what} found nothing there: upload it, or mend the URL")
    if isinstance(error, PermissionError):
        return Unavailable(f"{what} is not permitted ({error}): give credentials that may do it")
    return Unavailable(
        f"{what} failed ({type(error).__name__}: {error}): mend its address, or this machine's credentials for it"
    )
