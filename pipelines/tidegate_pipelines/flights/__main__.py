"""`python -m tidegate_pipelines.flights` is `tidegate demo`: the same options, the same exit status.

The command line parses; `demo` does.
"""

from __future__ import annotations

import sys

from tidegate_pipelines.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "demo")
    main()
