"""A Source Adapter's heart: the protocol by which a platform turns a version directory into a servable.

The version loader asks a platform after it has verified every file; other packages add platforms by entry points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol, runtime_checkable

from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.repository import EXPECTATIONS, PROFILE
from tidegate_serving.platforms.discovery import Discovered
from tidegate_serving.platforms.loader import Servable


@dataclass(frozen=True, slots=True)
class WarmUpOptions:
    """How thoroughly a version is warmed up.

    enabled: whether the warm-up file is read; the manifest's example is run in any case.
    iterations: how often each request of the file is run.
    batch_sizes: numbers of rows to which each request, and the example, is also stretched.
    size_for: the number of rows that the model is asked for at once where so many wait; None for just as many.
    """

    enabled: bool = True
    iterations: int = 1
    batch_sizes: tuple[int, ...] = ()
    size_for: Callable[[int], int] | None = None

    def __post_init__(self) -> None:
        if self.iterations < 1 or any(size < 1 for size in self.batch_sizes):
            raise InvalidInput(
                f"warm-up wants {self.iterations} iterations, batches of {self.batch_sizes}: use 1 or more"
            )

    def sizes(self, rows: int) -> list[int]:
        """Each number of rows for which a request of `rows` runs, once."""
        asked = (rows, *self.batch_sizes)
        return list(dict.fromkeys(asked if self.size_for is None else map(self.size_for, asked)))


@dataclass(frozen=True, slots=True)
class PlatformOptions:
    """What the engine's operator allows and wishes.

    `allow_pickle` permits files that can run any code while they load. `settings` holds a table per platform, as text
    by key; each platform's module says which keys it knows, and refuses others. `warm_up` holds for all of them.
    """

    allow_pickle: bool = False
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    warm_up: WarmUpOptions = WarmUpOptions()


class Platform(Protocol):
    """Loads versions of one kind of model."""

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A servable from verified files. Raises the contract's errors, Unsupported where a library is missing."""


@runtime_checkable
class Discovers(Protocol):
    """A platform that can read signatures off a model."""

    def discover(self, directory: Path, manifest: Manifest) -> Discovered:
        """What the model says of itself; `manifest` lists its files and has no signatures yet."""


@runtime_checkable
class Estimates(Protocol):
    """A platform whose models need another amount of memory than their files suggest."""

    def estimate(self, directory: Path, manifest: Manifest) -> int:
        """Bytes that the loaded version will need at most."""


def model_file(manifest: Manifest, directory: Path, key: str, suffixes: tuple[str, ...]) -> Path:
    """The model's file: the one that metadata `key` names, else the only one with one of the suffixes."""
    named = manifest.metadata.get(key)
    listed = [entry.path for entry in manifest.files]
    if named is not None:
        if named not in listed:
            raise InvalidInput(f"metadata {key!r} of {manifest.id} names {named!r}, which its manifest does not list")
        return directory / named
    found = [path for path in listed if PurePosixPath(path).suffix in suffixes and not is_added(path)]
    if len(found) != 1:
        raise InvalidInput(
            f"{manifest.id} lists {len(found)} files ending in {' or '.join(suffixes)}: "
            f"name the model's file in metadata {key!r}"
        )
    return directory / found[0]


def is_added(path: str) -> bool:
    """Whether publishing added a file of a manifest, as it does training profile and expectations."""
    return path.startswith((f"{PROFILE}/", f"{EXPECTATIONS}/"))


def missing_library(library: str, extra: str, platform: str) -> Unsupported:
    """The error for a library that an extra would have installed."""
    return Unsupported(f"platform {platform!r} needs {library}: install it with `pip install tidegate[{extra}]`")


def thread_count(manifest: Manifest, key: str) -> int:
    """The number of threads that metadata `key` names, 1 where it does not."""
    text = manifest.metadata.get(key, "1")
    if not text.isdigit() or int(text) < 1:
        raise InvalidInput(f"metadata {key!r} of {manifest.id} is {text!r}: use a whole number above 0")
    return int(text)
