"""Runs one peer over pairs of Parquet files, in the Python of the peers' environment: `peer_worker.py TOOL FOLDER`.

Prints JSON: per week the columns that the tool blames by its own defaults, and the seconds that it took.
"""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")
os.environ.update(DO_NOT_TRACK="1", NML_DISABLE_USAGE_LOGGING="1")
LEFT_OUT = ("time", "flight_id")


def evidently(before: pd.DataFrame, now: pd.DataFrame) -> list[str]:
    """Its preset for drift."""
    from evidently import Report
    from evidently.presets import DataDriftPreset

    found = Report([DataDriftPreset()]).run(now, before).dict()["metrics"]
    blamed = []
    for one in found:
        about = one["config"]
        if not about["type"].endswith("ValueDrift"):
            continue
        drifted = (
            one["value"] < about["threshold"] if "p_value" in about["method"] else one["value"] >= about["threshold"]
        )
        blamed += [about["column"]] if drifted else []
    return blamed


def nannyml(before: pd.DataFrame, now: pd.DataFrame) -> list[str]:
    """Univariate drift, missing and unseen values, ranges; the week is one chunk, as many rows of training another."""
    import nannyml as nml

    columns = [str(name) for name in before.columns]
    texts = [name for name in columns if before[name].dtype == object]
    numbers = [name for name in columns if name not in texts]
    kinds = [
        (nml.UnivariateDriftCalculator, columns),
        (nml.MissingValuesCalculator, columns),
        (nml.UnseenValuesCalculator, texts),
        (nml.NumericalRangeCalculator, numbers),
    ]
    blamed = []
    for kind, names in kinds:
        calculator = kind(column_names=names, chunk_size=len(now))
        calculator.fit(before)
        table = calculator.calculate(now).filter(period="analysis").to_df()
        blamed += [str(one[0]) for one in table.columns if one[-1] == "alert" and bool(table[one].any())]
    return blamed


def deepchecks(before: pd.DataFrame, now: pd.DataFrame) -> list[str]:
    """Its check of every feature's drift and that of new categories, each with its own condition."""
    np.Inf = np.inf  # type: ignore[attr-defined]  # it was made for numpy 1
    from deepchecks.tabular import Dataset
    from deepchecks.tabular.checks import FeatureDrift, NewCategoryTrainTest

    texts = [str(name) for name in before.columns if before[name].dtype == object]
    train, test = (Dataset(rows, cat_features=texts) for rows in (before, now))
    drift = FeatureDrift().run(train, test).value
    new = NewCategoryTrainTest().run(train, test).value
    added = [str(row["Feature name"]) for _, row in new.iterrows() if row["# New Categories"] > 0]
    return [name for name, one in drift.items() if (one["Drift score"] or 0.0) > 0.2] + added


TOOLS: dict[str, Callable[[pd.DataFrame, pd.DataFrame], list[str]]] = {
    "evidently": evidently,
    "nannyml": nannyml,
    "deepchecks": deepchecks,
}


def read(path: Path) -> pd.DataFrame:
    """Numbers and categories; what is true or false becomes a category."""
    rows = pd.read_parquet(path).drop(columns=list(LEFT_OUT), errors="ignore")
    rows = rows.select_dtypes(exclude=["datetime"])
    flags = rows.select_dtypes("bool").columns
    return rows.astype(dict.fromkeys(flags, "str")).astype(dict.fromkeys(flags, "object"))


def main(tool: str, folder: Path) -> None:
    """Every pair of files; an error of the tool is blame of no column, and told."""
    ask, found = TOOLS[tool], dict[str, Any]()
    for path in sorted(folder.glob("*.now.parquet")):
        before, now = read(path.with_name(path.name.replace(".now.", ".before."))), read(path)
        if not found:
            ask(before, now)  # imports, and whatever it makes once
        begun = time.perf_counter()
        try:
            columns = sorted(set(ask(before, now)))
        except Exception as error:  # a tool that fails on a fault has not found it
            print(f"{path.name}: {type(error).__name__}: {error}", file=sys.stderr)
            columns = []
        found[path.name.removesuffix(".now.parquet")] = {"columns": columns, "seconds": time.perf_counter() - begun}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
