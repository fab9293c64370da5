"""Counts per feature, time block and bin, and their Parquet file.

They are additive: the counts of any window are the sums over its blocks, shards or hours. Nothing else is kept of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import NotFound, Tampered
from tidegate_validation.statistics.arrays import Floats, Integers, places_of


@dataclass(frozen=True, slots=True)
class FeatureCounts:
    """One feature: `n[b, k]` rows of block `blocks[b]` in bin `codes[k]`; shapes [B], [K] and [B, K], ascending."""

    blocks: Integers
    codes: Integers
    n: Integers

    @property
    def rows(self) -> int:
        """All rows."""
        return int(self.n.sum())

    def of(self, codes: tuple[int, ...]) -> Integers:
        """Rows per block in any of these bins, shape [B]."""
        wanted = frozenset(codes)
        kept = [place for place, code in enumerate(self.codes.tolist()) if code in wanted]
        return np.asarray(self.n[:, kept].sum(axis=1), dtype=np.int64)

    def grouped(self, groups: Sequence[tuple[int, ...]]) -> Integers:
        """Rows per block in each of the groups of bins, which share none, shape [B, groups]."""
        place = {code: column for column, group in enumerate(groups) for code in group}
        found = np.zeros((len(self.blocks), len(groups)), dtype=np.int64)
        for column, code in enumerate(self.codes.tolist()):
            if code in place:
                found[:, place[code]] += self.n[:, column]
        return found

    def merged(self, other: FeatureCounts) -> FeatureCounts:
        """Both together; blocks that occur in both are added."""
        blocks = np.union1d(self.blocks, other.blocks)
        codes = np.union1d(self.codes, other.codes)
        n = np.zeros((len(blocks), len(codes)), dtype=np.int64)
        for part in (self, other):
            n[np.ix_(np.searchsorted(blocks, part.blocks), np.searchsorted(codes, part.codes))] += part.n
        return FeatureCounts(blocks, codes, n)

    @classmethod
    def from_rows(cls, blocks: Integers, codes: Integers, n: Integers) -> FeatureCounts:
        """From parallel arrays of (block, bin, n)."""
        days, day = places_of(blocks)
        return cls._summed(days, day, codes, n.astype(np.float64))

    @classmethod
    def of_rows(cls, days: Integers, day: Integers, codes: Integers) -> FeatureCounts:
        """From the bin of each row and the place of its block among the `days`, each of which has rows."""
        return cls._summed(days, day, codes, None)

    @classmethod
    def _summed(cls, days: Integers, day: Integers, codes: Integers, weights: Floats | None) -> FeatureCounts:
        low = int(codes.min()) if len(codes) else 0
        width = int(codes.max()) - low + 1 if len(codes) else 0
        cells = day * width
        cells += codes
        cells -= low
        flat = np.bincount(cells, weights=weights, minlength=len(days) * width)
        n = flat.astype(np.int64).reshape(len(days), width)
        there = np.flatnonzero(n.any(axis=0))
        return cls(days.astype(np.int64), there + low, n[:, there])


def repeats(blocks: Integers, n: Integers, once: Integers) -> FeatureCounts:
    """Counts of rows that are there once (bin 0), and once more (bin 1), from `n` rows per block of which `once` differ
    from each other, all of shape [B]."""
    codes = np.repeat(np.array([0, 1], dtype=np.int64), len(blocks))
    rows = np.concatenate([once, n - once])
    return FeatureCounts.from_rows(np.tile(blocks, 2)[rows > 0], codes[rows > 0], rows[rows > 0])


Counts = Mapping[str, FeatureCounts]
REPEATED = "\x1frepeated rows"
"""The name of the counts of rows that are there once (bin 0), and once more (bin 1)."""
TIME_OF_DAY = "\x1ftime of day"
"""The name of the counts of rows by the hour (UTC) of their event time, and of that hour where columns go with it."""


def write_counts(path: Path, counts: Counts, *, profile: str, stream: str) -> None:
    """Writes counts(profile, stream, block, feature, bin, n) as Parquet; rows that are zero are left out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {"block": [], "feature": [], "bin": [], "n": []}
    for feature, part in counts.items():
        rows, places = np.nonzero(part.n)
        columns["block"].extend(part.blocks[rows].tolist())
        columns["feature"].extend([feature] * len(rows))
        columns["bin"].extend(part.codes[places].tolist())
        columns["n"].extend(part.n[rows, places].tolist())
    size = len(columns["n"])
    table = pa.table(
        {
            "profile": pa.array([profile] * size, pa.string()).dictionary_encode(),
            "stream": pa.array([stream] * size, pa.string()).dictionary_encode(),
            "block": pa.array(columns["block"], pa.int64()),
            "feature": pa.array(columns["feature"], pa.string()).dictionary_encode(),
            "bin": pa.array(columns["bin"], pa.int32()),
            "n": pa.array(columns["n"], pa.int64()),
        }
    )
    pq.write_table(table, path)


def read_counts(path: Path) -> dict[str, FeatureCounts]:
    """Counts by feature. Raises NotFound or Tampered, naming the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise NotFound(f"{path} is missing: the profile is not complete, publish the version again")
    try:
        table = pq.read_table(path, columns=["block", "feature", "bin", "n"])
    except (pa.ArrowException, OSError) as error:
        raise Tampered(f"{path} cannot be read ({error}): publish the version again") from error
    features = table["feature"].combine_chunks().dictionary_encode()
    place = features.indices.to_numpy()
    block, code, n = (table[name].to_numpy().astype(np.int64) for name in ("block", "bin", "n"))
    return {
        name: FeatureCounts.from_rows(*(column[place == number] for column in (block, code, n)))
        for number, name in enumerate(features.dictionary.to_pylist())
    }
