"""`python -m tidegate_pipelines.flights` is `tidegate demo`: the same options, the same exit status.

The command line parses; `demo` does.
"""

from __future__ import annotations

import typer

from tidegate_pipelines.cli.demo import demo

if __name__ == "__main__":
    typer.run(demo)
