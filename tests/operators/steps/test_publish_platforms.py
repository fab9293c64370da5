"""Versions published with nothing but files and training data, and loaded as an engine would load them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.models.loading import load_published, outputs

from tidegate_operators.steps.publish import Publication, publish
from tidegate_serving.contract.signature import SERVING_DEFAULT

ROWS = 60
RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame({"size": RANDOM.normal(size=ROWS), "night": RANDOM.random(ROWS) > 0.5})
LATE = ((FRAME["size"] > 0) ^ FRAME["night"]).to_numpy().astype(int)


def train_xgboost(path: Path) -> Any:
    import xgboost

    model = xgboost.train({"objective": "reg:squarederror", "nthread": 1}, xgboost.DMatrix(FRAME, LATE), 5)
    model.save_model(path)
    return model.predict(xgboost.DMatrix(FRAME))


def train_lightgbm(path: Path) -> Any:
    import lightgbm

    parameters = {"objective": "regression", "num_threads": 1, "verbose": -1, "min_data_in_leaf": 2}
    model = lightgbm.train(parameters, lightgbm.Dataset(FRAME, LATE), 5)
    model.save_model(path)
    return model.predict(FRAME)


@pytest.mark.parametrize(
    ("platform", "train", "file"),
    [("xgboost", train_xgboost, "model.json"), ("lightgbm", train_lightgbm, "model.txt")],
)
def test_a_boosted_model_loads_beside_what_publishing_adds_and_takes_bools(
    tmp_path: Path, platform: str, train: Any, file: str
) -> None:
    told = train(tmp_path / file)
    training = FRAME.assign(late=LATE)
    made = publish(
        Publication([tmp_path / file], "m", 1, platform, tmp_path / "repository", training=training, label="late")
    )
    assert (made.directory / "expectations" / "suite.json").is_file()
    version = load_published(made.directory)
    number, truth = (spec.dtype for spec in version.manifest.signatures[SERVING_DEFAULT].inputs)
    assert truth == "bool"
    sent = {"size": FRAME["size"].to_numpy().astype(number), "night": FRAME["night"].to_numpy()}
    np.testing.assert_allclose(outputs(version, sent)["predict"], told, rtol=1e-6)


def test_a_table_in_json_loads_beside_what_publishing_adds(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text(json.dumps({"a": 1.0, "b": 2.0}))
    training = pd.DataFrame({"key": ["a", "b"] * 30})
    made = publish(Publication([tmp_path / "table.json"], "m", 1, "table", tmp_path / "r", training=training))
    keys = np.array([b"b", b"a"], dtype=object)
    assert outputs(load_published(made.directory), {"key": keys})["value"].tolist() == [2.0, 1.0]
