"""The AnalysisTemplate, as the text of a YAML file that comes with the package."""

from __future__ import annotations

from importlib import resources


def analysis_template() -> str:
    """What `kubectl apply -f -` takes."""
    return (resources.files(__package__) / "analysis_template.yaml").read_text(encoding="utf-8")
