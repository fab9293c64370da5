"""The protocols of a platform, which turns a version directory into a servable, and what platforms share.

The version loader asks a platform after it has verified every file. Built-in platforms lie in the folders beside this
module; other packages add theirs by entry points.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, runtime_checkable

from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.repository import EXPECTATIONS, GOLDEN, PROFILE
from tidegate_serving.contract.signature import Signature
from tidegate_serving.platforms.device import Device
from tidegate_serving.platforms.loader import Servable

_log = logging.getLogger(__name__)

ALLOWING_PICKLES = (
    "set allow_pickle (in an engine's config, under [robustness] of a gate's policy, or --allow-pickle where a command "
    "has it)"
)
"""What a refusal of a file that can run any code says of who may allow it, and where."""


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
    """What the engine's operator allows and sets.

    `allow_pickle` permits files that can run any code while they load. `settings` holds a table per platform, as text
    by key; each platform's module says which keys it knows, and refuses others. `warm_up` holds for all of them.
    """

    allow_pickle: bool = False
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    warm_up: WarmUpOptions = WarmUpOptions()


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """Signatures by name, metadata that the platform will need, an example row where the model brings one along.

    `refused` names signatures of the model that cannot be served, each with the reason.
    """

    signatures: Mapping[str, Signature]
    metadata: Mapping[str, str] = field(default_factory=dict)
    example: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def complete(self, manifest: Manifest) -> Manifest:
        """The manifest with what was found; signatures that cannot be served are logged. Unsupported where none can."""
        for name, why in self.refused.items():
            _log.warning("%s: signature %r is not served: %s", manifest.id, name, why)
        if not self.signatures:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.refused.items()) or "it has none"
            raise Unsupported(f"{manifest.id} has no signature that can be served ({reasons})")
        return replace(
            manifest,
            signatures=self.signatures,
            metadata={**self.metadata, **manifest.metadata},
            example={**self.example, **manifest.example},
        )


class Platform(Protocol):
    """Loads versions of one kind of model."""

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A servable from verified files. Raises the contract's errors, Unsupported where a library is missing."""


@runtime_checkable
class Discovers(Protocol):
    """A platform that can read signatures off a model."""

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """What the model says of itself; `manifest` lists its files and has no signatures yet."""


@runtime_checkable
class Estimates(Protocol):
    """A platform whose models need another amount of memory than their files suggest."""

    def estimate(self, directory: Path, manifest: Manifest) -> int | Mapping[str, int]:
        """Bytes that the loaded version will need at most: of memory, or by device (`ram`, `gpu:0`)."""


@runtime_checkable
class MayUseGpu(Protocol):
    """A platform whose models run on a GPU where its settings say so."""

    @property
    def gpu(self) -> Device | None:
        """The GPU that its models are to run on; None for the processor."""

    def gpu_need(self, manifest: Manifest) -> Mapping[str, int]:
        """Bytes that one loaded copy of a version will need of GPUs, by device (`gpu:0`); empty on the processor."""


def model_file(manifest: Manifest, directory: Path, key: str, suffixes: tuple[str, ...]) -> Path:
    """The model's file: the one that metadata `key` names, else the only one with one of the suffixes."""
    named = manifest.metadata.get(key)
    listed = [entry.path for entry in manifest.files]
    if named is not None:
        if named not in listed:
            raise InvalidInput(f"metadata {key!r} of {manifest.id} names {named!r}, which its manifest does not list")
        return directory / named
    found = [path for path in listed if PurePosixPath(path).suffix in suffixes and not is_added(path)]
    if not found:
        raise InvalidInput(
            f"{manifest.id} has no file that ends in {' or '.join(suffixes)} (it has {', '.join(listed) or 'none'}): "
            f"publish the model's file, or name it in metadata {key!r}"
        )
    if len(found) > 1:
        raise InvalidInput(
            f"{manifest.id} has {len(found)} files that end in {' or '.join(suffixes)} ({', '.join(found)}): name the "
            f"model's file in metadata {key!r}"
        )
    return directory / found[0]


def is_added(path: str) -> bool:
    """Whether publishing added a file of a manifest, as it does training profile, expectations and golden requests."""
    return path == GOLDEN or path.startswith((f"{PROFILE}/", f"{EXPECTATIONS}/"))


IMPORTING = threading.RLock()
"""Held while a library is imported. Two threads that import libraries which import each other see halves of them, which
XGBoost, for one, takes for a missing scikit-learn as long as the process lives."""


@contextmanager
def library(name: str, platform: str) -> Iterator[None]:
    """Around the imports of a library that a platform needs: Unsupported, naming the extra, where it is missing."""
    try:
        with IMPORTING:
            yield
    except ImportError as error:
        raise missing_library(name, platform) from error


def missing_library(name: str, platform: str) -> Unsupported:
    """The error for a library that the platform's extra would have installed."""
    return Unsupported(f"platform {platform!r} needs {name}: install it with `pip install 'tidegate[{platform}]'`")


def thread_count(manifest: Manifest, key: str) -> int:
    """The number of threads that metadata `key` names, 1 where it does not."""
    text = manifest.metadata.get(key, "1")
    if not text.isdigit() or int(text) < 1:
        raise InvalidInput(f"metadata {key!r} of {manifest.id} is {text!r}: use a whole number above 0")
    return int(text)
