"""Publishes a trained candidate to the model repository, and puts the rows that gates and traffic need beside it.

Takes candidates and frames from training; calls `tidegate_operators.steps.publish`; leaves Parquet files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_flights.candidates import Candidate
from tidegate_flights.data import to_table
from tidegate_flights.features import EVENT_TIME, LABEL, SERVABLE
from tidegate_operators.steps import Publication, PublishedVersion, publish
from tidegate_serving.contract.signature import SERVING_DEFAULT

if TYPE_CHECKING:
    import pandas as pd


def publish_candidate(candidate: Candidate, version: int, repository: Path) -> PublishedVersion:
    """The candidate as `flights`:`version`, with the profile of the very rows it was trained on."""
    publication = Publication(
        files=candidate.files,
        servable=SERVABLE,
        version=version,
        platform=candidate.platform,
        signature={SERVING_DEFAULT: candidate.signature},
        repository=repository,
        training=to_table(candidate.training),
        label=LABEL,
        event_time=EVENT_TIME,
        example=example_row(candidate),
        metadata={"title": candidate.title, **candidate.metadata},
    )
    return publish(publication)


def example_row(candidate: Candidate) -> dict[str, Any]:
    """The first training row without a missing value, by input."""
    names = list(candidate.signature.input_names)
    row = candidate.training[names].dropna().iloc[0]
    return {name: row[name] for name in names}


def write_rows(frame: pd.DataFrame, path: Path) -> Path:
    """The frame as Parquet, missing numbers as NaN; returns the path."""
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(to_table(frame), path)
    return path
