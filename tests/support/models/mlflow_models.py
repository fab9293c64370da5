"""MLflow models for tests, made by MLflow in a process of its own: `python -m tests.support.models.mlflow_models DIR`.

It leaves DIR/NAME/1, model directories as `save_model` of each flavour writes them, beside DIR/rows.json with the rows
that they were made from and what each model says of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

PLAIN: dict[str, Any] = {"pip_requirements": []}


def build(directory: Path) -> dict[str, Any]:
    """Makes all of them; the content of rows.json."""
    command = [sys.executable, "-m", "tests.support.models.mlflow_models", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the MLflow models could not be made:\n{done.stderr[-4000:]}")
    said: dict[str, Any] = json.loads((directory / "rows.json").read_text())
    return said


def main(directory: Path) -> None:
    """Runs every maker."""
    warnings.simplefilter("ignore")
    import mlflow
    import numpy as np
    import pandas as pd
    from mlflow.models import infer_signature
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(0)
    frame = pd.DataFrame({"size": random.normal(size=60), "age": random.integers(0, 50, 60)})
    truth = (frame["size"] * 10 + frame["age"] > 25).astype(int)
    said: dict[str, Any] = {"size": frame["size"].tolist(), "age": frame["age"].tolist()}

    def save(name: str, flavour: Any, model: Any, answer: Any, **options: Any) -> None:
        told = {"signature": infer_signature(frame, answer), "input_example": frame[:2]}
        flavour.save_model(model, path=str(directory / name / "1"), **PLAIN, **{**told, **options})
        said[name] = np.asarray(answer).tolist()

    linear = LogisticRegression().fit(frame, truth)
    save("sklearn", mlflow.sklearn, linear, linear.predict(frame), serialization_format="skops")
    scores = linear.predict_proba(frame)
    method = {"serialization_format": "skops", "pyfunc_predict_fn": "predict_proba"}
    save("proba", mlflow.sklearn, linear, scores, **method)
    save("pickled", mlflow.sklearn, linear, linear.predict(frame), serialization_format="cloudpickle")
    _boosters(save, frame, truth)
    _pyfuncs(directory, frame, said)
    _with_missing_texts(directory, said)
    _with_binary(directory)
    _with_several_outputs(save, frame)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "rows.json").write_text(json.dumps(said))


def _boosters(save: Any, frame: Any, truth: Any) -> None:
    import lightgbm
    import mlflow
    import xgboost

    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(frame, truth), 5)
    save("xgboost", mlflow.xgboost, booster, booster.predict(xgboost.DMatrix(frame)))
    classifier = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(frame, truth)
    save("labels", mlflow.xgboost, classifier, classifier.predict(frame))
    trees = lightgbm.train({"verbose": -1, "num_threads": 1}, lightgbm.Dataset(frame, truth), 5)
    save("lightgbm", mlflow.lightgbm, trees, trees.predict(frame), signature=None)


def _pyfuncs(directory: Path, frame: Any, said: dict[str, Any]) -> None:
    import mlflow
    import numpy as np
    import pandas as pd
    from mlflow.models import infer_signature

    base: Any = mlflow.pyfunc.PythonModel

    class Words(base):  # type: ignore[misc]
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            return pd.DataFrame({"twice": model_input["size"] * 2, "shout": model_input["word"] + "!"})

    class Sum(base):  # type: ignore[misc]
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            return model_input.sum(axis=1)

    worded = frame[["size"]].assign(word="tide")
    answer = Words().predict(None, worded)
    block = np.ones((3, 4), "f4")
    mlflow.pyfunc.save_model(
        str(directory / "words/1"), python_model=Words(), signature=infer_signature(worded, answer), **PLAIN
    )
    told = {"signature": infer_signature(block, block.sum(1)), "input_example": block}
    mlflow.pyfunc.save_model(str(directory / "sum/1"), python_model=Sum(), **told, **PLAIN)
    said["words"] = answer.to_dict(orient="list")
    for version in (1, 2):
        _with_code(directory / "coded" / str(version), version, infer_signature(frame[["size"]], frame[["size"]]))


def _with_missing_texts(directory: Path, said: dict[str, Any]) -> None:
    """A pipeline that knows texts that are missing, with scikit-learn's flavour and as a pyfunc of its own."""
    import mlflow
    import pandas as pd
    from mlflow.models import infer_signature
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    base: Any = mlflow.pyfunc.PythonModel

    class Missing(base):  # type: ignore[misc]
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            return model_input["city"].isna()

    frame = pd.DataFrame({"city": ["Oslo", None, "Rome", None], "kind": ["", "a", "a", ""]})
    pipeline = make_pipeline(OneHotEncoder(), LinearRegression()).fit(frame, [1.0, 2.0, 3.0, 4.0])
    answer = pipeline.predict(frame)
    said["holes"] = answer.tolist()
    mlflow.sklearn.save_model(
        pipeline,
        path=str(directory / "holes/1"),
        signature=infer_signature(frame, answer),
        serialization_format="skops",
        **PLAIN,
    )
    told = infer_signature(frame, frame["city"].isna().to_numpy())
    mlflow.pyfunc.save_model(str(directory / "asked/1"), python_model=Missing(), signature=told, **PLAIN)


def _with_binary(directory: Path) -> None:
    """A pyfunc that counts the bytes of what it gets."""
    import mlflow
    import pandas as pd
    from mlflow.models import infer_signature

    base: Any = mlflow.pyfunc.PythonModel

    class Length(base):  # type: ignore[misc]
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            return model_input["image"].map(bytes.__len__)

    told = infer_signature(pd.DataFrame({"image": [b"\xff"]}), pd.Series([1]))
    mlflow.pyfunc.save_model(str(directory / "length/1"), python_model=Length(), signature=told, **PLAIN)


def _with_several_outputs(save: Any, frame: Any) -> None:
    import mlflow
    from mlflow.models import infer_signature
    from sklearn.linear_model import LinearRegression

    truth = frame.assign(age=frame["age"].astype("f4"))
    model = LinearRegression().fit(frame, truth)
    told = infer_signature(frame, truth)
    save("several", mlflow.sklearn, model, model.predict(frame), signature=told, serialization_format="skops")


CODED = """
import helper_of_coded
import mlflow


class Coded(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        from late_helper_of_coded.inner import FACTOR
        return [{"size": value * helper_of_coded.FACTOR * FACTOR} for value in model_input["size"]]


mlflow.models.set_model(Coded())
"""


def _with_code(target: Path, version: int, signature: Any) -> None:
    """A model that answers with records, and whose factor, the version's square, lies in modules that it brings."""
    import mlflow

    source = target.parent / f"source_{version}"
    (source / "late_helper_of_coded").mkdir(parents=True)
    for name in ("helper_of_coded.py", "late_helper_of_coded/inner.py"):
        (source / name).write_text(f"FACTOR = {version}\n")
    (source / "model.py").write_text(CODED)
    sys.path.insert(0, str(source))
    brought = [str(source / name) for name in ("helper_of_coded.py", "late_helper_of_coded")]
    mlflow.pyfunc.save_model(
        str(target), python_model=str(source / "model.py"), code_paths=brought, signature=signature, **PLAIN
    )
    sys.path.remove(str(source))
    for name in [name for name in sys.modules if "helper_of_coded" in name]:
        del sys.modules[name]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
