"""The canary's verdict for Argo Rollouts: an AnalysisTemplate with the web provider, and the endpoint that it asks.

The endpoint reads what canaries leave beside a version in the model repository; it starts nothing and changes nothing.
"""

from tidegate_pipelines.argo.endpoint import CanaryEndpoint, Protection
from tidegate_pipelines.argo.template import analysis_template

__all__ = ["CanaryEndpoint", "Protection", "analysis_template"]
