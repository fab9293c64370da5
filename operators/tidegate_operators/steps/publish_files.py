"""Publishes from paths alone, for the command line and orchestrators, and fills in what can be told.

In come paths; out goes a call of `publish` with the training table, the signature, inferred where none is given, and
an example row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.infer_signature import Inferred, infer_signature, read_signatures
from tidegate_operators.steps.json_object import read_object
from tidegate_operators.steps.publication_checks import check_training, inputs_by_name
from tidegate_operators.steps.publish import Published, publish
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_validation.tables import as_table

if TYPE_CHECKING:
    import pyarrow as pa

_EXAMPLE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Publication:
    """What to publish. `training` is a path or a table, as `tidegate_validation.tables.as_table` takes them.

    `signature` and `example` are JSON files; where they are None they are inferred and taken from `training`, or from
    `sample`, rows of the same columns of which no training profile is made. `expectations` is a folder with an edited
    suite, inferred from `training` where it is None.
    """

    files: Sequence[Path]
    servable: str
    version: int
    platform: str
    repository: Path
    training: Any = None
    sample: Any = None
    signature: Path | None = None
    example: Path | None = None
    label: str | None = None
    event_time: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    expectations: Path | None = None


def publish_files(publication: Publication) -> Published:
    """Publishes; errors as `publish` and `infer_signature` raise them, and NotFound for a missing file."""
    from tidegate_serving.platforms.platform import PlatformOptions
    from tidegate_serving.platforms.registry import installed_platforms

    installed_platforms(PlatformOptions()).check(publication.platform)
    for file in publication.files:
        if not file.exists():
            raise NotFound(f"{file} is missing: name the model's directory or files")
    training = None if publication.training is None else as_table(publication.training, "training data")
    sample = training if publication.sample is None else as_table(publication.sample, "sample data")
    inferred = _signatures(publication, sample)
    if training is not None:
        check_training(training, inferred.signatures, publication.label, publication.event_time)
    return publish(
        files=publication.files,
        servable=publication.servable,
        version=publication.version,
        platform=publication.platform,
        signatures=inferred.signatures,
        repository=publication.repository,
        training=training,
        label=publication.label,
        event_time=publication.event_time,
        example=_example(publication, inferred, sample),
        metadata={**inferred.metadata, **publication.metadata},
        expectations=publication.expectations,
    )


def _signatures(publication: Publication, sample: pa.Table | None) -> Inferred:
    if publication.signature is not None:
        return Inferred(read_signatures(publication.signature))
    return infer_signature(publication.files, publication.platform, sample, publication.label, publication.event_time)


def _example(publication: Publication, inferred: Inferred, sample: pa.Table | None) -> dict[str, Any]:
    if publication.example is not None:
        cure = "write one JSON object with a value per input"
        return read_object(publication.example, "example file", missing=cure, wanted=cure)
    if sample is None and inferred.example:
        return dict(inferred.example)
    if sample is None:
        raise InvalidInput("a version needs an example row for its warm-up: give training data, or an example as JSON")
    names = [name for name in inputs_by_name(inferred.signatures) if name in sample.column_names]
    for row in sample.select(names).slice(0, _EXAMPLE_ROWS).to_pylist():
        if all(not _is_missing(value) for value in row.values()):
            return dict(row)
    raise InvalidInput(f"the first {_EXAMPLE_ROWS} training rows all miss a value: give an example row as JSON")


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
