"""The small language in which a manifest says which model result feeds which output: `NAME` or `NAME[:,K]`.

`sklearn.outputs`, `onnx.outputs`, `xgboost.outputs` and `lightgbm.outputs` in the manifest's metadata are JSON objects
of it, such as `{"probability": "predict_proba[:,1]", "label": "predict"}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.tensors import Array

_RULE = re.compile(r"([^\[\]]+?)(?:\[:,\s*(\d+)\])?\Z")


@dataclass(frozen=True, slots=True)
class OutputRule:
    """Which result of the model, and which of its columns (None: all), becomes an output."""

    result: str
    column: int | None

    def pick(self, array: Array) -> Array:
        """The output from the result. IndexError where the column is not there."""
        return array if self.column is None else array[:, self.column]


def picked(rules: Mapping[str, OutputRule], run: Callable[[str], Array]) -> dict[str, Array]:
    """Outputs by name, of results that `run` gives by their names, each of them once."""
    results = {name: run(name) for name in dict.fromkeys(rule.result for rule in rules.values())}
    return {name: rule.pick(results[rule.result]) for name, rule in rules.items()}


def output_rules(manifest: Manifest, key: str) -> dict[str, OutputRule]:
    """A rule per output of all signatures; an output that `key` does not mention is the result of its own name."""
    text = manifest.metadata.get(key, "{}")
    try:
        told = json.loads(text)
        rules = {str(name): _parse(str(rule)) for name, rule in told.items()}
    except (ValueError, AttributeError) as error:
        raise InvalidInput(
            f'metadata {key!r} of {manifest.id} is {text!r}: use JSON such as {{"probability": "predict_proba[:,1]"}}'
        ) from error
    outputs = [spec.name for signature in manifest.signatures.values() for spec in signature.outputs]
    return {name: rules.get(name, OutputRule(name, None)) for name in outputs}


def _parse(rule: str) -> OutputRule:
    match = _RULE.match(rule.strip())
    if match is None:
        raise ValueError(f"{rule!r} is neither NAME nor NAME[:,K]")
    return OutputRule(match[1].strip(), None if match[2] is None else int(match[2]))
