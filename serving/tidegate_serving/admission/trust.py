"""What is trusted, from files on disk: PEM keys and key rings, joined, and read again whenever one of them changes.

Engines and `tidegate verify` name the files; an engine's admission asks for the ring at each check, so a revocation
counts from the next one on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from tidegate_serving.admission.key_ring import FILE_NAME, KeyRing, Role, TrustedKey
from tidegate_serving.admission.keys import key_id, load_public_key
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.contract.formats import MALFORMED
from tidegate_serving.contract.plain_file import read_given, read_small
from tidegate_serving.contract.times import from_text
from tidegate_serving.files import write_json

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
FileMark = tuple[int, int, int, int]
_BRING = (
    "bring the one that lies beside the validator's private key, or make both with `tidegate keys new`; `tidegate hub` "
    "makes its own, in `keys` of its folder, when it first starts, so start it first"
)


class FileWatch(Generic[_T]):
    """A value read from files, read again once one of them changed; one that can no longer be read keeps what it said.

    The first reading happens at once and raises what `read` raises.
    """

    def __init__(self, files: Sequence[Path], read: Callable[[], _T]) -> None:
        self._files = tuple(files)
        self._read = read
        self._marks = self._look()
        self._value = read()

    def value(self) -> _T:
        """What the files say now."""
        marks = self._look()
        if marks != self._marks:
            self._marks = marks
            try:
                self._value = self._read()
            except (TidegateError, OSError) as error:
                _log.error("what was trusted before is kept: %s", error)
        return self._value

    def _look(self) -> tuple[FileMark | None, ...]:
        return tuple(file_mark(path) for path in self._files)


def watch_trust(paths: Sequence[Path]) -> FileWatch[KeyRing]:
    """The joined ring of PEM files, ring files and folders with a ring. NotFound or InvalidInput naming the file."""
    files = [ring_file(path) for path in paths]
    return FileWatch(files, lambda: read_trust(files))


def read_trust(paths: Sequence[Path]) -> KeyRing:
    """The joined ring, once."""
    ring = KeyRing.of()
    for path in paths:
        ring = ring.joined(_read(ring_file(path)))
    return ring


def ring_file(path: Path) -> Path:
    """The ring's file where `path` is a folder; else the path itself."""
    return path / FILE_NAME if path.is_dir() else path


def read_ring(path: Path) -> KeyRing:
    """The ring in a file, or in a folder. NotFound or InvalidInput naming the file."""
    file = ring_file(path)
    try:
        document = json.loads(read_given(file, "key ring", _BRING))
    except MALFORMED as error:
        raise InvalidInput(f"{file} is no key ring ({error}): name a folder made by `tidegate keys new`") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{file} is no key ring: name a folder made by `tidegate keys new`")
    return KeyRing.from_dict(document, str(file))


def write_ring(ring: KeyRing, path: Path) -> None:
    """Writes the ring into a file, or into a folder, all at once."""
    write_json(ring_file(path), ring.to_dict())


def key_of(public: Path, name: str, role: Role, created_at: str) -> TrustedKey:
    """A ring's entry for a public key file. NotFound or InvalidInput naming the file."""
    key = load_public_key(public)
    from_text(created_at, "created_at")
    return TrustedKey(key_id(key), name, role, key.public_bytes_raw(), created_at)


def _read(path: Path) -> KeyRing:
    if path.suffix == ".json" or (path.is_file() and read_small(path).lstrip().startswith(b"{")):
        return read_ring(path)
    if not path.exists():
        raise NotFound(f"trusted key or key ring {path} is missing: {_BRING}")
    return KeyRing.of([key_of(path, path.stem, Role.VALIDATOR, "1970-01-01T00:00:00+00:00")])


def file_mark(path: Path) -> FileMark | None:
    """Changes when the file does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
