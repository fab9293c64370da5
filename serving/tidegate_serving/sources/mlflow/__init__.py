"""The MLflow model registry as a source: an alias or a tag proposes a version, a verdict admits it.

Importing this does no work and needs no MLflow.
"""
