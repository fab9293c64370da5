"""The `tidegate` command: one module per group of commands, each of which calls a step or a pipeline.

A command reads options and shows results; what it does is done elsewhere."""

from tidegate_pipelines.cli.app import main

__all__ = ["main"]
