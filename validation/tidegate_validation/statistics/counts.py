"""Counts per feature, time block and bin, and their Parquet file.

They are additive: the counts of any window are the sums over its blocks, shards or hours. Nothing else is kept of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import NotFound, Tampered
from tidegate_validation.statistics.arrays import Integers


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
        kept = [place for place, code in enumerate(self.codes.tolist()) if code in codes]
        return np.asarray(self.n[:, kept].sum(axis=1), dtype=np.int64)

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
        block_values, block_index = _distinct(blocks)
        code_values, code_index = _distinct(codes)
        matrix = np.zeros((len(block_values), len(code_values)), dtype=np.int64)
        np.add.at(matrix, (block_index, code_index), n)
        return cls(block_values.astype(np.int64), code_values.astype(np.int64), matrix)


def _distinct(values: Integers) -> tuple[Integers, Integers]:
    """Distinct values, ascending, and the place of each value among them; without sorting where they lie close."""
    if not len(values) or int(values.max()) - int(values.min()) > _CLOSE + len(values):
        found, place = np.unique(values, return_inverse=True)
        return found, place.astype(np.int64)
    from_least = values - values.min()
    there = np.bincount(from_least) > 0
    return np.flatnonzero(there) + values.min(), (np.cumsum(there) - 1)[from_least]


_CLOSE = 50_000
"""So many places more than there are rows cost less than sorting these."""
Counts = Mapping[str, FeatureCounts]
REPEATED = "\x1frepeated rows"
"""The name of the counts of rows that are there once (bin 0), and once more (bin 1)."""


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
