"""The training profile: what every feature looked like, as frozen bins, quantiles and counts per time block.

It lies in the version directory as `profile.json` with `counts.parquet` beside it.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, NotFound, Tampered
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.plain_file import read_plain
from tidegate_validation.statistics.agreement import Agreements
from tidegate_validation.statistics.association import Association
from tidegate_validation.statistics.bins import FrozenBins, bins_from_dict
from tidegate_validation.statistics.blocks import BlockUnit
from tidegate_validation.statistics.counts import FeatureCounts, read_counts, write_counts
from tidegate_validation.statistics.deviations import Deviations, deviations_from_dict
from tidegate_validation.statistics.points import Points
from tidegate_validation.statistics.reaches import Reaches
from tidegate_validation.statistics.sql import Family

FILE_NAME = "profile.json"
COUNTS_NAME = "counts.parquet"
VERSION = "3"
STREAM = "training"
_MEASURED = "\x1fmeasured\x1f"


class Role(enum.StrEnum):
    """What a column is to the model; only inputs are compared with what is served."""

    INPUT = "input"
    LABEL = "label"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class FeatureProfile:
    """One column of the training data.

    `missing` and `infinite` are rows that are null, NaN or empty, and infinite. `new_rate` is the share of rows whose
    value occurs in one block only: the Good-Turing estimate, by blocks, of how often a new day brings a new value; None
    where there are too many values to say; `new_values` is how many such values came by themselves, as those that one
    day brings at once do not. `quantiles` are values at `levels`; `support` holds all values with their counts where
    they are few; `points` says what single values weigh. `clusters` is how many rows come together where values are
    lowest and highest, `reaches` how many lay beyond all blocks before, `deviations` how far from the middle of their
    own block. Numbers in the unit of the column; times in Unix seconds.
    """

    name: str
    type: str
    family: Family
    role: Role
    rows: int
    missing: int
    infinite: int
    bins: FrozenBins | None
    distinct: int = 0
    new_rate: float | None = None
    new_values: int = 0
    minimum: float | None = None
    maximum: float | None = None
    levels: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    support: tuple[tuple[float, int], ...] = ()
    points: Points = field(default_factory=Points)
    clusters: tuple[float, float] = (1.0, 1.0)
    reaches: Reaches = ((), ())
    deviations: Deviations | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            **asdict(self),
            "bins": self.bins.to_dict() if self.bins else None,
            "support": {"values": [value for value, _ in self.support], "n": [n for _, n in self.support]},
            "points": self.points.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FeatureProfile:
        """From JSON."""
        support, (lowest, highest) = data["support"], data["clusters"]
        below, above = data.get("reaches", ((), ()))
        values: dict[str, Any] = {name: data[name] for name in ("name", "type", "new_rate", "minimum", "maximum")}
        values |= {name: int(data[name]) for name in ("rows", "missing", "infinite", "distinct", "new_values")}
        values |= {name: tuple(data[name]) for name in ("levels", "quantiles")}
        return cls(
            **values,
            family=Family(data["family"]),
            role=Role(data["role"]),
            bins=bins_from_dict(data["bins"]) if data["bins"] else None,
            support=tuple(zip(support["values"], support["n"], strict=True)),
            points=Points.from_dict(data["points"]),
            clusters=(float(lowest), float(highest)),
            reaches=(tuple(map(float, below)), tuple(map(float, above))),
            deviations=deviations_from_dict(data.get("deviations")),
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """The whole profile. `id` is the SHA-256 of everything else; `counts` are rows per feature, block and bin.

    `pairs` are columns that go together, `agreements` what is known of those that hold equal values. `measures` are,
    for each column that holds a list of numbers or a free text in a row, the profile of what these are measured by.
    """

    id: str
    rows: int
    block_unit: BlockUnit
    blocks: int
    label: str | None
    event_time: str | None
    features: Mapping[str, FeatureProfile]
    counts: Mapping[str, FeatureCounts] = field(default_factory=dict)
    pairs: tuple[Association, ...] = ()
    agreements: Agreements = field(default_factory=Agreements)
    measures: Mapping[str, Profile] = field(default_factory=dict)

    @property
    def inputs(self) -> list[FeatureProfile]:
        """Features that are served and compared."""
        return [feature for feature in self.features.values() if feature.role is Role.INPUT]

    @property
    def rows_per_block(self) -> float:
        """How many rows a block has, by and large."""
        return self.rows / max(self.blocks, 1)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without the counts and the id."""
        return {
            "format": f"tidegate.profile/{VERSION}",
            "rows": self.rows,
            "block_unit": self.block_unit.value,
            "blocks": self.blocks,
            "label": self.label,
            "event_time": self.event_time,
            "features": [feature.to_dict() for feature in self.features.values()],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "agreements": self.agreements.to_dict(),
            "measures": {
                name: [feature.to_dict() for feature in one.features.values()] for name, one in self.measures.items()
            },
        }

    def all_counts(self) -> dict[str, FeatureCounts]:
        """The counts, and those of measures under names of their own."""
        return {
            **self.counts,
            **{
                f"{name}{_MEASURED}{measure}": counts
                for name, one in self.measures.items()
                for measure, counts in one.counts.items()
            },
        }


def write_profile(profile: Profile, directory: Path) -> None:
    """Writes `profile.json` and `counts.parquet` into a directory, which is made if need be."""
    directory.mkdir(parents=True, exist_ok=True)
    document = profile.to_dict()
    identity = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    write_counts(directory / COUNTS_NAME, profile.all_counts(), profile=identity[:16], stream=STREAM)
    (directory / FILE_NAME).write_text(json.dumps({**document, "id": identity}, allow_nan=False) + "\n")


def read_profile(directory: Path) -> Profile:
    """The profile in a directory.

    Raises NotFound where a file is missing, Unsupported or InvalidInput where another version of Tidegate wrote it, and
    Tampered when it makes no sense.
    """
    path = directory / FILE_NAME
    try:
        document = json.loads(read_plain(path, "publish the version again"))
    except FileNotFoundError as error:
        raise NotFound(f"{path} is missing: publish the version with its training data to have a profile") from error
    except MALFORMED as error:
        raise Tampered(f"{path} is not JSON ({error}): publish the version again") from error
    if not isinstance(document, dict):
        raise Tampered(f"{path} holds no object: publish the version again")
    check_format(document, kind="profile", version=VERSION, where=str(path))
    counts = read_counts(directory / COUNTS_NAME)
    try:
        features = [FeatureProfile.from_dict(data) for data in document["features"]]
        profile = Profile(
            id=str(document["id"]),
            rows=int(document["rows"]),
            block_unit=BlockUnit(document["block_unit"]),
            blocks=int(document["blocks"]),
            label=document["label"],
            event_time=document["event_time"],
            features={feature.name: feature for feature in features},
            counts=counts,
            pairs=tuple(Association.from_dict(data) for data in document["pairs"]),
            agreements=Agreements.from_dict(document["agreements"]) if "agreements" in document else Agreements(),
        )
        return replace(profile, measures=_measures(profile, document.get("measures", {})))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise Tampered(f"{path} cannot be used ({error}): publish the version again") from error


def _measures(profile: Profile, data: Mapping[str, Any]) -> dict[str, Profile]:
    """Profiles of what columns are measured by, each with the counts that `all_counts` keeps under their names."""
    found = {}
    for name, measures in data.items():
        prefix = f"{name}{_MEASURED}"
        features = [FeatureProfile.from_dict(one) for one in measures]
        counts = {key[len(prefix) :]: one for key, one in profile.counts.items() if key.startswith(prefix)}
        found[name] = replace(
            profile, features={one.name: one for one in features}, counts=counts, pairs=(), agreements=Agreements()
        )
    return found
