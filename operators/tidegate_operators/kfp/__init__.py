"""Kubeflow Pipelines components over the steps: declared once, made into container components and into local ones.

What a component does is in `tasks`, which knows nothing of kfp, so that the image needs none. This module imports
neither, since a running task imports `tasks` through it.
"""
