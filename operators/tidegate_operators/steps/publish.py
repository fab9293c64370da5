"""Publishes a version: its files, training profile and manifest appear in the model repository all at once, or not.

A training job, a command or an orchestrator says what in a `Publication`; what it leaves out is inferred.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_operators.steps.infer_signature import InferredSignatures, infer_signature
from tidegate_operators.steps.model_copy import ModelFiles, copy_plain
from tidegate_operators.steps.publication_checks import (
    check_example,
    check_repository,
    check_sample,
    check_source,
    check_training,
    plain_example,
    profiled_features,
)
from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, NotFound
from tidegate_serving.contract.formats import MALFORMED
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, describe_files, digest, read_manifest, verify_files
from tidegate_serving.contract.plain_file import check_given, read_given
from tidegate_serving.contract.repository import (
    EXPECTATIONS,
    GOLDEN,
    PROFILE,
    expectations_directory,
    profile_directory,
    version_directory,
)
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec, inputs_by_name
from tidegate_serving.files import folder_aside, hold, write_atomically
from tidegate_validation.progress import SILENT, Progress, working
from tidegate_validation.tables import as_table

if TYPE_CHECKING:
    import pyarrow as pa

GivenSignature = Path | str | Signature | Mapping[str, Any]
"""A JSON file, or what one holds: a signature, or several by name; or signatures themselves."""
_EXAMPLE_ROWS = 1000
_LOCK = ".publish.lock"
_ASIDE = ".publishing"


@dataclass(frozen=True, slots=True)
class Publication:
    """What to publish. Tables are given as `tidegate_validation.tables.as_table` takes them.

    files: a directory, whose contents are copied, or files, which are copied under their own names.
    servable, version: what clients call the model, and a number that is not taken.
    platform: onnx, sklearn, tensorflow and so on.
    repository: root folder of the model repository.
    training: the training data, one column per input and `label`; without its profile no skew can be judged.
    sample: rows of the same columns, of which no profile is made; else `training` serves to infer from.
    signature: a JSON file, what one holds, or signatures; None infers them from the files, sklearn's dtypes from the
        sample.
    example: one row, a value per input, as JSON file or mapping; None takes the sample's first row without a gap.
    label: the column of the truth.
    event_time: the input that carries the event's time in Unix seconds; in the tables, stamps, dates and texts of ISO
        8601 serve too.
    metadata: free text by name.
    expectations: a folder with an edited suite; None infers one from `training`.
    golden: a file of golden requests that the version must answer as recorded.
    warm_up: a TensorFlow Serving warm-up file, whose requests run before the version serves.
    allow_pickle: load a scikit-learn model that is a pickle, to infer its signature: it runs any code that it holds.
    """

    files: Path | str | Sequence[Path | str]
    servable: str
    version: int
    platform: str
    repository: Path | str
    training: Any = None
    sample: Any = None
    signature: GivenSignature | None = None
    example: Path | str | Mapping[str, Any] | None = None
    label: str | None = None
    event_time: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    expectations: Path | str | None = None
    golden: Path | str | None = None
    warm_up: Path | str | None = None
    allow_pickle: bool = False


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """Where the version lies, and the SHA-256 of its manifest in hex, which verdicts and pushes are bound to."""

    directory: Path
    manifest_digest: str


def publish(publication: Publication, progress: Progress = SILENT) -> PublishedVersion:
    """Copies the files to ROOT/SERVABLE/VERSION and describes them, with `manifest.json` last.

    What is published already with the same content stays as it is and is returned, so that a task that was killed can
    run again. AlreadyExists for a version that is taken by other content, NotFound for a missing file, Unsupported for
    a platform that is not installed or cannot tell its signature, InvalidInput, naming the column or input, for what
    does not fit together. Whatever fails, nothing of the version is left behind.
    """
    from tidegate_serving.platforms.platform import PlatformOptions
    from tidegate_serving.platforms.registry import installed_platforms

    one = publication
    identity = ServableId(one.servable, one.version)
    installed_platforms(PlatformOptions()).check(one.platform)
    with working(progress, f"publish {identity}", parts=5):
        progress.at("read", 0)
        check_repository(one.repository)
        files = _files(one.files, Path(one.repository))
        training = None if one.training is None else _rows(one.training, one.event_time, "training data")
        sample = training if one.sample is None else _rows(one.sample, one.event_time, "sample data")
        inferred = _signatures(one, files.named, sample)
        if training is not None:
            check_training(training, inferred.signatures, one.label, one.event_time)
        row = plain_example(_example(one, inferred, sample))
        check_example(row, inferred.signatures)
        target = version_directory(Path(one.repository), identity)
        with _place_aside(target) as aside:
            progress.at("copy", 1)
            _copy(files, aside)
            progress.at("profile", 2)
            if training is not None:
                _build_profile(aside, training, one, inferred.signatures)
            progress.at("expectations", 3)
            _add_expectations(aside, one.expectations, inferred=training is not None)
            _add_golden(aside, one.golden)
            _add_warm_up(aside, one.warm_up)
            progress.at("digests", 4)
            manifest = Manifest(
                id=identity,
                platform=one.platform,
                signatures=inferred.signatures,
                files=describe_files(aside),
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                event_time=one.event_time,
                label=one.label,
                example=row,
                metadata={**inferred.metadata, **one.metadata},
            )
            check_source(manifest, aside)
            data = manifest.to_bytes()
            write_atomically(aside / FILE_NAME, data)
            if target.exists():
                return _published_before(target, manifest)
    return PublishedVersion(target, digest(data))


def read_signatures(given: GivenSignature) -> dict[str, Signature]:
    """Signatures by name; a single one becomes `serving_default`. InvalidInput naming what a document lacks."""
    if isinstance(given, Signature):
        return {SERVING_DEFAULT: given}
    document = given
    if not isinstance(document, Mapping):
        inferred = "write one, or leave it out to have it inferred"
        document = _read_object(
            Path(document), "signature file", missing=inferred, wanted="it needs inputs and outputs"
        )
    named = {SERVING_DEFAULT: document} if "inputs" in document else document
    return {name: one if isinstance(one, Signature) else Signature.from_dict(one) for name, one in named.items()}


@contextlib.contextmanager
def _place_aside(target: Path) -> Iterator[Path]:
    """A new directory that becomes `target` at the end, unless that is there; one publisher per name at a time, so
    whatever else lies aside was left by one that died."""
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    with hold(folder / _LOCK):
        for leftover in folder.glob(f".*{_ASIDE}"):
            shutil.rmtree(leftover)
        if not target.exists():
            with folder_aside(target, _ASIDE) as aside:
                yield aside
            return
        if not (target / FILE_NAME).is_file():
            raise AlreadyExists(
                f"{target} exists without a {FILE_NAME}: somebody else left half a version, remove it first"
            )
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=_ASIDE, dir=folder) as again:
            yield Path(again)


def _published_before(target: Path, wanted: Manifest) -> PublishedVersion:
    """The version in `target`, where it is what is wanted. AlreadyExists naming what differs, Tampered for a file that
    is not as its manifest says."""
    there, manifest_digest = read_manifest(target)
    before, now = (json.loads(one.to_bytes()) for one in (there, replace(wanted, created_at=there.created_at)))
    if differs := [key for key, value in now.items() if before[key] != value]:
        raise AlreadyExists(
            f"{target} is published already with other {' and '.join(differs)}: a version never changes, "
            "publish under a new number"
        )
    verify_files(there, target)
    return PublishedVersion(target, manifest_digest)


def _rows(given: Any, event_time: str | None, what: str) -> pa.Table:
    """The data as a table, its event times in Unix seconds."""
    from tidegate_validation.statistics.event_times import told_in_seconds

    table = as_table(given, what)
    return table if event_time is None else told_in_seconds(table, event_time, what)


def _files(given: Path | str | Sequence[Path | str], repository: Path) -> ModelFiles:
    files = ModelFiles.of([Path(one) for one in ([given] if isinstance(given, Path | str) else given)])
    for file in files.named:
        if repository.resolve().is_relative_to(file.resolve()):
            raise InvalidInput(
                f"the repository {repository} lies in {file}, which would be copied into itself: move it"
            )
    return files


def _signatures(one: Publication, files: Sequence[Path], sample: pa.Table | None) -> InferredSignatures:
    if one.signature is None:
        identity = ServableId(one.servable, one.version)
        return infer_signature(
            files, one.platform, sample, one.label, one.event_time, allow_pickle=one.allow_pickle, id=identity
        )
    return InferredSignatures(read_signatures(one.signature))


def _example(one: Publication, inferred: InferredSignatures, sample: pa.Table | None) -> Mapping[str, Any]:
    if isinstance(one.example, Mapping):
        return one.example
    if one.example is not None:
        cure = "write one JSON object with a value per input"
        return _read_object(Path(one.example), "example file", missing=cure, wanted=cure)
    if sample is None and inferred.example:
        return inferred.example
    if sample is None:
        raise InvalidInput(
            "a version needs an example row for its warm-up: give training data (`training`), or a file (`example`) "
            'with JSON of a value per input, such as {"x": 1.5}'
        )
    check_sample(sample, inferred.signatures)
    names = [name for name in inputs_by_name(inferred.signatures) if name in sample.column_names]
    for row in sample.select(names).slice(0, _EXAMPLE_ROWS).to_pylist():
        if all(not _is_missing(value) for value in row.values()):
            inputs = inputs_by_name(inferred.signatures)
            return {name: _nested(value, inputs[name]) for name, value in row.items()}
    if sample.num_rows == 0:
        raise InvalidInput("the data has no rows: give some, of which one without a missing value is the example")
    raise InvalidInput(f"the first {_EXAMPLE_ROWS} rows all miss a value: give an example row as JSON")


def _nested(value: Any, spec: TensorSpec) -> Any:
    """A column's number for an input whose rows have axes of one."""
    single = len(spec.shape) > 1 and all(size == 1 for size in spec.shape[1:]) and not isinstance(value, list)
    return np.full(spec.shape[1:], value).tolist() if single else value


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _read_object(path: Path, what: str, *, missing: str, wanted: str) -> dict[str, Any]:
    """The JSON object in a file; `missing` and `wanted` say what to do where there is none, and what it should hold."""
    try:
        document = json.loads(read_given(path, what, missing))
    except MALFORMED as error:
        raise InvalidInput(f"{what} {path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{what} {path} holds no object: {wanted}")
    return document


def _copy(files: ModelFiles, aside: Path) -> None:
    files.copy(aside)
    for reserved in (FILE_NAME, PROFILE, EXPECTATIONS, GOLDEN):
        if (aside / reserved).exists():
            raise InvalidInput(f"{reserved} is written by publish: leave it out of the model's files")


def _build_profile(aside: Path, training: pa.Table, one: Publication, signatures: Mapping[str, Signature]) -> None:
    from tidegate_validation.statistics import build_profile

    build_profile(
        training,
        features=profiled_features(signatures, one.event_time),
        label=one.label,
        event_time=one.event_time,
        directory=profile_directory(aside),
    )


def _add_expectations(aside: Path, given: Path | str | None, inferred: bool) -> None:
    from tidegate_validation.expectations import ExpectationRule, Suites, read_suites, write_suites
    from tidegate_validation.expectations.suite import STATISTICS_NAME, SUITE_NAME
    from tidegate_validation.statistics import read_profile

    folder = expectations_directory(aside)
    if given is not None:
        edited = Path(given)
        if read_suites(edited) is None:
            raise NotFound(f"{edited} has no suite.json: make one with `tidegate expectations infer`")
        folder.mkdir()
        for name in (SUITE_NAME, STATISTICS_NAME):
            if (edited / name).is_file():
                copy_plain((edited / name).resolve(), folder / name)
    elif inferred:
        write_suites(Suites.inferred(read_profile(profile_directory(aside)), ExpectationRule()), folder)


def _add_golden(aside: Path, given: Path | str | None) -> None:
    from tidegate_validation.golden_requests import read_golden_requests

    if given is not None:
        read_golden_requests(Path(given))
        copy_plain(Path(given).resolve(), aside / GOLDEN)


def _add_warm_up(aside: Path, given: Path | str | None) -> None:
    from tidegate_operators.steps.warm_up_file import check_warm_up
    from tidegate_serving.platforms.warm_up.runner import FILE

    if given is None:
        return
    check_given(Path(given), "warm-up file", "make it with `tidegate warm-up capture`")
    check_warm_up(Path(given))
    (aside / FILE).parent.mkdir(parents=True, exist_ok=True)
    (aside / FILE).unlink(missing_ok=True)
    copy_plain(Path(given).resolve(), aside / FILE)
