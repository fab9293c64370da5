"""Makes kfp's components of what is declared: container ones for a cluster, local ones for kfp's SubprocessRunner.

Both take and make the same, so that a pipeline is written once for either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

try:
    from kfp import components, dsl
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"components need {error.name}, which is not installed: run `pip install 'tidegate[kfp]'`", name=error.name
    ) from error

from tidegate_operators.kfp.declared import DECLARED
from tidegate_operators.kfp.image import default_image
from tidegate_serving.contract.errors import InvalidInput

LAUNCHER = "tidegate_operators.kfp.launcher"
_LOCAL_IMAGE = "python:3.11"  # named and never used: a local component runs in the Python that is on the path


@dataclass(frozen=True)
class Components:
    """Every component by its name, to be called inside a pipeline."""

    to_path: Any
    publish: Any
    publish_registered: Any
    validate: Any
    push: Any
    canary: Any
    promote: Any
    rollback: Any
    skew: Any
    export: Any
    require: Any

    def all(self) -> dict[str, Any]:
        """By name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def container_components(image: str | None = None) -> Components:
    """For a cluster: each runs the launcher in `image`, by default what TIDEGATE_IMAGE says or the released one."""
    chosen = image or default_image()
    return Components(**{one.__name__: dsl.container_component(_contained(one, chosen)) for one in DECLARED})


def local_components() -> Components:
    """For `kfp.local` with `SubprocessRunner(use_venv=False)`: each runs here, in the Python that is on the path."""
    local = dsl.component(base_image=_LOCAL_IMAGE, install_kfp_package=False)
    return Components(**{one.__name__: local(one) for one in DECLARED})


def compiled_component(name: str) -> Any:
    """A component as it was compiled for this release. InvalidInput for a name that is none of Components."""
    names = [one.name for one in fields(Components)]
    if name not in names:
        raise InvalidInput(f"component {name!r} is unknown: use one of {', '.join(names)}")
    file = resources.files(__package__) / "compiled" / f"{name}.yaml"
    return components.load_component_from_text(file.read_text(encoding="utf-8"))


def _contained(declared: Callable[..., None], image: str) -> Callable[..., dsl.ContainerSpec]:
    def build(*_placeholders: Any) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(
            image=image,
            command=["python", "-m", LAUNCHER, declared.__name__],
            args=["--executor-input", "{{$}}"],
        )

    build.__name__, build.__doc__ = declared.__name__, declared.__doc__
    build.__annotations__ = declared.__annotations__
    build.__signature__ = inspect.signature(declared)  # type: ignore[attr-defined]
    return build
