"""Publishes a version: its files, training profile and manifest appear in the model repository all at once, or not.

In comes what a training job has made; out goes the directory ROOT/NAME/VERSION, written aside, synced and renamed, with
`manifest.json` last, after tfx's Pusher.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.publication_checks import check_example, check_training, plain_example, profiled_features
from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, NotFound
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, describe_files, digest
from tidegate_serving.contract.repository import (
    EXPECTATIONS,
    PROFILE,
    expectations_directory,
    profile_directory,
    version_directory,
)
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import Signature
from tidegate_serving.files import folder_aside, hold, write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

_LOCK = ".publish.lock"
_ASIDE = ".publishing"


@dataclass(frozen=True, slots=True)
class Published:
    """Where the version lies, and the SHA-256 of its manifest in hex, which verdicts and pushes are bound to."""

    directory: Path
    manifest_digest: str


def publish(
    *,
    files: Path | Sequence[Path],
    servable: str,
    version: int,
    platform: str,
    signatures: Mapping[str, Signature],
    repository: Path,
    training: pa.Table | None = None,
    label: str | None = None,
    event_time: str | None = None,
    example: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    expectations: Path | None = None,
) -> Published:
    """Copies `files` into the repository as `servable`:`version` and describes them.

    `files` is a directory, whose contents are copied, or files, which are copied under their own names. `training`
    holds the training data, one column per input and `label`; its profile goes into the version, without it no skew can
    be judged. `expectations` is a folder with an edited `suite.json` (see `tidegate expectations infer`), which the
    version then carries; without it one is inferred from the profile. `event_time` names the input that carries the
    event's time in Unix seconds. `example` is one row: a value per input.

    AlreadyExists for a version that is taken, NotFound for a missing file, InvalidInput, naming the column or input,
    for what does not fit together. Whatever fails, nothing of the version is left behind.
    """
    from tidegate_serving.platforms.platform import PlatformOptions
    from tidegate_serving.platforms.registry import installed_platforms

    identity = ServableId(servable, version)
    installed_platforms(PlatformOptions()).check(platform)
    row = plain_example(example)
    check_example(row, signatures)
    if training is not None:
        check_training(training, signatures, label, event_time)
    target = version_directory(repository, identity)
    with _place_aside(target) as aside:
        _copy(files, aside)
        if training is not None:
            _build_profile(aside, training, signatures, label, event_time)
        _add_expectations(aside, expectations, inferred=training is not None)
        manifest = Manifest(
            id=identity,
            platform=platform,
            signatures=signatures,
            files=describe_files(aside),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            event_time=event_time,
            label=label,
            example=row,
            metadata=metadata or {},
        )
        data = manifest.to_bytes()
        write_atomically(aside / FILE_NAME, data)
    return Published(target, digest(data))


@contextlib.contextmanager
def _place_aside(target: Path) -> Iterator[Path]:
    """A new directory that becomes `target` at the end; one publisher per name at a time, so whatever else lies aside
    was left by one that died."""
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    with hold(folder / _LOCK):
        for leftover in folder.glob(f".*{_ASIDE}"):
            shutil.rmtree(leftover)
        _check_free(target)
        with folder_aside(target, _ASIDE) as aside:
            yield aside


def _check_free(target: Path) -> None:
    if not target.exists():
        return
    if (target / FILE_NAME).is_file():
        raise AlreadyExists(f"{target} is published already: a version never changes, publish under a new number")
    raise AlreadyExists(f"{target} exists without a {FILE_NAME}: somebody else left half a version, remove it first")


def _copy(files: Path | Sequence[Path], aside: Path) -> None:
    single = [files] if isinstance(files, Path) else list(files)
    if not single:
        raise InvalidInput("a version needs files: name a directory, or the files of the model")
    for source in single:
        _check_source(source)
        if source.is_dir():
            shutil.copytree(source, aside, dirs_exist_ok=True)
        else:
            shutil.copy2(source, aside / source.name)
    for reserved in (FILE_NAME, PROFILE, EXPECTATIONS):
        if (aside / reserved).exists():
            raise InvalidInput(f"{reserved} is written by publish: leave it out of the model's files")
    if not any(path.is_file() for path in aside.rglob("*")):
        raise InvalidInput(f"{single[0]} holds no file: a version needs at least one")


def _check_source(source: Path) -> None:
    if not source.exists():
        raise NotFound(f"{source} is missing: name the model's directory or files")
    for path in (source, *sorted(source.rglob("*"))):
        if path.is_symlink():
            raise InvalidInput(f"{path} is a link: a version holds plain files only, put the file itself there")


def _build_profile(
    aside: Path, training: pa.Table, signatures: Mapping[str, Signature], label: str | None, event_time: str | None
) -> None:
    from tidegate_validation.statistics import build_profile

    build_profile(
        training,
        features=profiled_features(signatures, event_time),
        label=label,
        event_time=event_time,
        directory=profile_directory(aside),
    )


def _add_expectations(aside: Path, given: Path | None, inferred: bool) -> None:
    from tidegate_validation.expectations import ExpectationRule, Suites, read_suites, write_suites
    from tidegate_validation.expectations.suite import STATISTICS_NAME, SUITE_NAME
    from tidegate_validation.statistics import read_profile

    folder = expectations_directory(aside)
    if given is not None:
        if read_suites(given) is None:
            raise NotFound(f"{given} has no suite.json: make one with `tidegate expectations infer`")
        folder.mkdir()
        for name in (SUITE_NAME, STATISTICS_NAME):
            if (given / name).is_file():
                shutil.copy2(given / name, folder / name)
    elif inferred:
        write_suites(Suites.inferred(read_profile(profile_directory(aside)), ExpectationRule()), folder)
