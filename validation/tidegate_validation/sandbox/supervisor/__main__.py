"""`python -I -S __main__.py SETTINGS`: the supervisor as a program, started without site packages to be quick."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Makes its own package importable, then supervises; the settings are the only argument."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    from tidegate_validation.sandbox.supervisor.settings import Settings
    from tidegate_validation.sandbox.supervisor.supervise import supervise

    supervise(Settings.from_json(sys.argv[1]))


if __name__ == "__main__":
    main()
