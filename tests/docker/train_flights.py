"""What a training job does, run inside a container of the composition: trains, logs to MLflow, and writes its data.

`train_flights.py FOLDER` leaves train.parquet and held_out.parquet there, and a registered model `flights`, version 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

ROWS, NAME = 4000, "flights"
random = np.random.default_rng(1)
features = pd.DataFrame(
    {"distance": random.normal(1000, 300, ROWS), "delay": random.exponential(20, ROWS)}, dtype="float64"
)
late = ((features["delay"] + random.normal(0, 10, ROWS)) > 25).astype("int64")
model = LogisticRegression().fit(features[:3000], late[:3000])
folder = Path(sys.argv[1])
table = features.assign(late=late)
table[:3000].to_parquet(folder / "train.parquet")
table[3000:].to_parquet(folder / "held_out.parquet")
mlflow.set_experiment("flights")
with mlflow.start_run():
    mlflow.sklearn.log_model(
        model,
        name="model",
        serialization_format="skops",
        registered_model_name=NAME,
        signature=mlflow.models.infer_signature(features, model.predict(features)),
        input_example=features[:2],
    )
