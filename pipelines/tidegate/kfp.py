"""Components and pipelines for Kubeflow Pipelines: `from tidegate.kfp import container_components, release_pipeline`.

Everything is defined in `tidegate_operators.kfp` and `tidegate_pipelines.kubeflow`; importing this needs kfp (`pip
install 'tidegate[kfp]'`).
"""

from tidegate_operators.kfp.components import Components, compiled_component, container_components, local_components
from tidegate_pipelines.kubeflow import (
    PodSettings,
    Released,
    compile_components,
    compile_pipeline,
    monitor_pipeline,
    release_pipeline,
)

__all__ = [
    "Components",
    "PodSettings",
    "Released",
    "compile_components",
    "compile_pipeline",
    "compiled_component",
    "container_components",
    "local_components",
    "monitor_pipeline",
    "release_pipeline",
]
