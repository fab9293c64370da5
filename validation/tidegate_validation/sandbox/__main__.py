"""`python -I -S __main__.py SETTINGS`: the guard as a program, started without site packages to be quick.

`robustness.child` runs it; the work is in `guard`.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Finds its own package, then runs the guard."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tidegate_validation.sandbox.guard import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
