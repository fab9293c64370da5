"""A Python callable as a model: how it is called with a batch, and the loader that the manager drives.

An embedding program hands in the callable; the manager loads it like any other version, the executor asks it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import Answer, LoadedVersion, each

WHOLE_BATCH = "inputs"
SINGLE_OUTPUT = "output"
Model = Callable[..., Any]
Call = Callable[[Mapping[str, Array]], Any]
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Predicts(Protocol):
    """An object such as an estimator."""

    @property
    def predict(self) -> Model:
        """What answers a batch."""


def callable_of(model: Model | Predicts) -> Model:
    """The model itself where it can be called, else its method `predict`. InvalidInput where it has neither."""
    if callable(model):
        return model
    if callable(getattr(model, "predict", None)):
        return model.predict
    raise InvalidInput(
        f"{type(model).__name__} {model!r:.80} cannot be called and has no method predict: serve a callable"
    )


def parameters(model: Model) -> dict[str, inspect.Parameter]:
    """What the model takes, by name; empty where Python cannot say, as for many functions written in C."""
    try:
        return dict(inspect.signature(model).parameters)
    except (TypeError, ValueError):
        return {}


def is_generator(model: Model) -> bool:
    """Whether it yields messages."""
    return inspect.isgeneratorfunction(model) or inspect.isgeneratorfunction(type(model).__call__)


def how_to_call(model: Model, inputs: Sequence[str]) -> Call:
    """The model as a function of inputs by name.

    It gets each input under the parameter of that name; a lone parameter called `inputs` gets all of them as a dict,
    and a lone parameter of another name the only input. Raises InvalidInput where its parameters fit none of that.
    """
    taken = parameters(model)
    if list(taken) == [WHOLE_BATCH] and WHOLE_BATCH not in inputs:
        return lambda given: model(dict(given))
    anything = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values())
    by_name = {name for name, parameter in taken.items() if parameter.kind in _BY_NAME}
    needed = {name for name, parameter in taken.items() if _is_needed(parameter)}
    if needed <= set(inputs) and (anything or set(inputs) <= by_name):
        return lambda given: model(**given)
    if len(inputs) == 1 and len(needed) <= 1:
        return lambda given: model(*given.values())
    raise InvalidInput(
        f"the callable takes {', '.join(taken) or 'nothing'}, but its inputs are {', '.join(inputs)}: "
        f"name its parameters after them, or take one parameter called {WHOLE_BATCH!r}"
    )


def _is_needed(parameter: inspect.Parameter) -> bool:
    variable = parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return parameter.default is inspect.Parameter.empty and not variable


def outputs_by_name(result: Any, names: Sequence[str]) -> Mapping[str, Any] | Answer:
    """What a model returned, by output name: a mapping or an `Answer` as it is, anything else as the only output."""
    if isinstance(result, Mapping | Answer):
        return result
    return {names[0] if len(names) == 1 else SINGLE_OUTPUT: result}


class CallableServable:
    """A `Servable` that calls the program's own code."""

    def __init__(self, call: Call, outputs: Sequence[str]) -> None:
        self._call: Call | None = call
        self._outputs = tuple(outputs)

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any] | Answer | Iterator[Any]:
        """What the callable returns for the whole batch, or yields message by message."""
        if self._call is None:
            raise InvalidInput("this model is closed: serve it again")
        result = self._call(inputs)
        if isinstance(result, Iterator):
            return each(result, lambda message: outputs_by_name(message, self._outputs))
        return outputs_by_name(result, self._outputs)

    def close(self) -> None:
        """Lets go of the callable."""
        self._call = None


class CallableLoader:
    """A `Loader` of something that is in memory already."""

    def __init__(self, manifest: Manifest, call: Call) -> None:
        self._manifest = manifest
        self._call = call

    def estimate(self) -> int:
        """Nothing beyond what the program holds anyway."""
        return 0

    def load(self) -> LoadedVersion:
        """At once."""
        outputs = [spec.name for signature in self._manifest.signatures.values() for spec in signature.outputs]
        return LoadedVersion(self._manifest, CallableServable(self._call, outputs))

    def unload(self) -> None:
        """The program holds the callable, or nobody does."""
