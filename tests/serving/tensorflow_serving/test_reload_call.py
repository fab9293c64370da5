"""Who may replace the list of models by request, and with which paths; no engine is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from tidegate_serving.config import EngineConfig, ModelConfig
from tidegate_serving.contract.errors import InvalidInput, PermissionRefused, TidegateError
from tidegate_serving.contract.messages import message
from tidegate_serving.tensorflow_serving.reload_call import ReloadCall

MODEL = "config { model_config_list { config { name: 'm' base_path: '/models/m' model_platform: 'tensorflow' } } }"
UNPUBLISHED = {"allow_unverified": True, "allow_unpublished": True}


class Bench:
    def __init__(self, **config: Any) -> None:
        self.config = EngineConfig(**config)
        self.replaced: list[Mapping[str, ModelConfig]] = []
        self.counters = {'requests_total{model="m"}': 3.0, 'requests_total{model="n"}': 1.0, "other": 7.0}

    def replace(self, models: Mapping[str, ModelConfig]) -> None:
        self.replaced.append(models)
        self.counters['requests_total{model="m"}'] += 2

    def ask(self, text: str) -> Any:
        request = text_format.Parse(text, message("tensorflow.serving.ReloadConfigRequest")())
        call = ReloadCall(lambda: self.config, self.replace, lambda: dict(self.counters))
        return message("tensorflow.serving.ReloadConfigResponse").FromString(call(request.SerializeToString()))


@pytest.mark.parametrize(
    "config",
    [
        UNPUBLISHED,
        {"roots": (Path("/models"),)},
        {"repository": Path("/models")},
        {**UNPUBLISHED, "grpc_address": "0.0.0.0:8500", "allow_reload_requests": True},
        {**UNPUBLISHED, "grpc_address": "[::1]:8500"},
    ],
)
def test_allowed(config: dict[str, Any]) -> None:
    bench = Bench(**config)
    assert bench.ask(MODEL).status.error_code == 0
    assert [list(models) for models in bench.replaced] == [["m"]]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({**UNPUBLISHED, "grpc_address": "0.0.0.0:8500"}, "set allow_reload_requests"),
        ({**UNPUBLISHED, "allow_reload_requests": False}, "set allow_reload_requests"),
        ({}, "base path /models/m of model 'm' lies outside the engine's roots (none)"),
        (
            {"roots": (Path("/models/m/inner"), Path("/model"))},
            "engine's roots (/models/m/inner, /model)",
        ),
    ],
)
def test_refused(config: dict[str, Any], text: str) -> None:
    bench = Bench(**config)
    with pytest.raises(PermissionRefused) as caught:
        bench.ask(MODEL)
    assert text in caught.value.message
    assert bench.replaced == []


def test_a_way_out_of_the_roots_is_none() -> None:
    with pytest.raises(PermissionRefused, match="lies outside"):
        Bench(roots=(Path("/models"),)).ask(MODEL.replace("/models/m", "/models/../etc"))


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "config { custom_model_config { type_url: 'x' } }",
            InvalidInput,
            "Only ModelConfigList is currently",
        ),
        ("", InvalidInput, "Only ModelConfigList is currently"),
        ("config { }", InvalidInput, "Only ModelConfigList is currently"),
        (MODEL.replace("'/models/m'", "'m'"), InvalidInput, "Expected model m to have an absolute path or URI"),
    ],
)
def test_what_cannot_be_a_list_is_said(text: str, kind: type[TidegateError], said: str) -> None:
    bench = Bench(**UNPUBLISHED)
    with pytest.raises(kind, match=said):
        bench.ask(text)
    assert bench.replaced == []


@pytest.mark.parametrize(("own", "rows"), [(True, 8), (False, None)])
def test_a_models_own_batching_is_read_where_the_config_says_so(tmp_path: Path, own: bool, rows: int | None) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "batching_params.pbtxt").write_text("max_batch_size { value: 8 }")
    bench = Bench(**UNPUBLISHED, own_batching_files=own)
    bench.ask(MODEL.replace("/models/m", str(tmp_path / "m")))
    batching = bench.replaced[0]["m"].batching
    assert (None if batching is None else batching.max_batch_rows) == rows


def test_an_empty_list_takes_all_away() -> None:
    bench = Bench(**UNPUBLISHED)
    bench.ask("config { model_config_list { } }")
    assert bench.replaced == [{}]


def test_increases_are_those_of_all_samples_of_a_metric() -> None:
    names = " metric_names: 'requests_total' metric_names: 'other' metric_names: 'no'"
    answer = Bench(**UNPUBLISHED).ask(MODEL + names)
    assert {metric.name: metric.int64_value_increase for metric in answer.metric} == {
        "requests_total": 2,
        "other": 0,
        "no": 0,
    }
