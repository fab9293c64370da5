"""Computes what versions must answer, from their published files in their own runtimes, without Tidegate.

Run as a script in a process of its own. It reads rows from Parquet, one column per input, and writes an .npz with one
array of probabilities per version, which the traffic client compares answers with.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_ROWS_AT_ONCE = 4096


def main() -> None:
    """Command line: `expected.py --job ROWS.parquet ANSWERS.npz 1=DIRECTORY 2=DIRECTORY [--job ...]`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", action="append", nargs="+", required=True, metavar="ARGUMENT")
    for rows, out, *versions in parser.parse_args().job:
        frame = read_rows(Path(rows))
        pairs = (entry.split("=", 1) for entry in versions)
        found: dict[str, Any] = {version: answers(Path(directory), frame) for version, directory in pairs}
        np.savez(out, **found)


def read_rows(path: Path) -> pd.DataFrame:
    """Numbers as they stand in the file, strings as objects."""
    import pandas as pd
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return pd.DataFrame({name: pd.Series(values, dtype=values.dtype) for name, values in columns.items()})


def answers(directory: Path, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Probability per row, float64, of the one model file in `directory`."""
    skops_file, onnx_file = directory / "model.skops", directory / "model.onnx"
    if skops_file.is_file():
        return _with_scikit_learn(skops_file, frame)
    if onnx_file.is_file():
        return _with_onnxruntime(onnx_file, frame)
    raise FileNotFoundError(f"{directory} holds neither model.skops nor model.onnx: name a published version")


def _with_scikit_learn(file: Path, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    import skops.io

    model = skops.io.load(file, trusted=["numpy.dtype"])
    return np.asarray(model.predict_proba(frame)[:, 1], dtype=np.float64)


def _with_onnxruntime(file: Path, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(file)
    columns = {column.name: frame[column.name].to_numpy() for column in session.get_inputs()}
    parts = []
    for start in range(0, len(frame), _ROWS_AT_ONCE):
        feed = {name: values[start : start + _ROWS_AT_ONCE] for name, values in columns.items()}
        parts.append(session.run(["probability"], feed)[0])
    return np.concatenate(parts).astype(np.float64)


if __name__ == "__main__":
    main()
