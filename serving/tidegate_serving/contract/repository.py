"""Where things lie in a model repository: version directories, and verdicts and reports beside them.

    ROOT/NAME/VERSION/            files of the version, `profile/` (training profile), `expectations/` (of the data;
                                      people edit them before publishing), `golden.parquet` (requests with the answers
                                      that it must give), `manifest.json` last
    ROOT/NAME/VERSION.verdict.json    the signed verdict (an in-toto statement)
    ROOT/NAME/VERSION.override-GATE.json    a signed override of that gate's no, if there is one
    ROOT/NAME/VERSION.report/     the verdict for people: `index.html`, `verdict.json`, Data Docs, `roc.json`

Publishers, gates, sources and the command line all ask here instead of joining paths of their own.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import ServableId, check_name, is_version
from tidegate_serving.contract.words import cut

PROFILE = "profile"
EXPECTATIONS = "expectations"
GOLDEN = "golden.parquet"
_VERDICT = ".verdict.json"
_LONGEST_PATH = 4095  # bytes that Linux takes
_SHOWN = 100


def version_directory(root: Path, id: ServableId) -> Path:
    """Directory of one version."""
    return root / id.name / str(id.version)


def check_path(path: Path) -> Path:
    """The same path. InvalidInput for one that is longer than any of Linux: to follow its parts would take as long as
    whoever sent it likes."""
    if (length := len(os.fsencode(path))) > _LONGEST_PATH:
        raise InvalidInput(
            f"path {cut(str(path), _SHOWN)!r} has {length:,} bytes: send one of {_LONGEST_PATH:,} or less"
        )
    return path


def verdict_path(directory: Path) -> Path:
    """The verdict that belongs to a version directory."""
    return directory.with_name(f"{directory.name}{_VERDICT}")


def version_of_verdict(path: Path) -> Path | None:
    """The version directory that a verdict's file belongs to; None for a file of another name."""
    name = path.name.removesuffix(_VERDICT)
    return path.with_name(name) if name not in (path.name, "") else None


def override_path(directory: Path, gate: str) -> Path:
    """The override of one gate's no for a version directory."""
    return directory.with_name(f"{directory.name}.override-{check_name(gate)}.json")


def report_directory(directory: Path) -> Path:
    """The report that belongs to a version directory."""
    return directory.with_name(f"{directory.name}.report")


def profile_directory(directory: Path) -> Path:
    """The training profile inside a version directory."""
    return directory / PROFILE


def reference_directory(directory: Path) -> Path:
    """The profile of a window that was accepted as what a version is compared with, beside its directory."""
    return directory.with_name(f"{directory.name}.reference")


def expectations_directory(directory: Path) -> Path:
    """The data expectations inside a version directory."""
    return directory / EXPECTATIONS


def golden_path(directory: Path) -> Path:
    """The golden requests inside a version directory."""
    return directory / GOLDEN


def versions(root: Path, name: str) -> list[int]:
    """Numbers of the versions published under a name, ascending; an empty list when there are none."""
    folder = root / name
    if not folder.is_dir():
        return []
    return sorted(int(child.name) for child in folder.iterdir() if is_version(child.name) and child.is_dir())
