"""Which Python code is the model's own: that which no library holds, nor the interpreter, nor Tidegate."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from types import FrameType

_IMPORTING = "<frozen importlib"
_STANDARD = ("<frozen", sysconfig.get_path("stdlib") + "/", str(Path(sysconfig.get_path("stdlib")).resolve()) + "/")
_PATHS = re.compile(r"(^<frozen |/)(genericpath|posixpath|pathlib|glob)(\.py|/\w+\.py|>)$")
_INSTALLED = ("/site-packages/", "/dist-packages/")
_LIBRARIES = (
    "<frozen",
    *(
        str(Path(place).resolve())
        for place in (
            sysconfig.get_path("stdlib"),
            sysconfig.get_path("purelib"),
            sysconfig.get_path("platlib"),
            Path(__file__).parents[1],
        )
    ),
)


def is_own(filename: str) -> bool:
    """Whether code of this file, as its `co_filename` has it, is the model's."""
    return not filename.startswith(_LIBRARIES)


def done_by_own(frame: FrameType | None) -> bool:
    """Whether the model's code did what happens in this frame itself, or through Python's own library alone."""
    watching = frame.f_code.co_filename if frame is not None else ""
    while frame is not None and (frame.f_code.co_filename == watching or _is_standard(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame is not None and is_own(frame.f_code.co_filename)


def looked_for_by_own(frame: FrameType | None) -> bool:
    """Whether the model's code looks itself for what this frame looks for, through `os.path`, `pathlib` or `glob`: what
    else of Python's library looks for files (as a traceback does for its lines of code) does so on its own account.
    """
    watching = frame.f_code.co_filename if frame is not None else ""
    while frame is not None and (frame.f_code.co_filename == watching or _is_of_paths(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame is not None and is_own(frame.f_code.co_filename)


def _is_of_paths(filename: str) -> bool:
    return _is_standard(filename) and _PATHS.search(filename) is not None


def _is_standard(filename: str) -> bool:
    return filename.startswith(_STANDARD) and not any(part in filename for part in _INSTALLED)


def of_an_import(frame: FrameType | None) -> bool:
    """Whether a library does what happens in this frame while it is imported."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False


def asked_for_by_own(frame: FrameType | None) -> bool:
    """Whether the model's code did what happens in this frame, itself or through a library; what a library does while
    it is imported is its own affair.
    """
    while frame is not None and not frame.f_code.co_filename.startswith(_IMPORTING):
        if is_own(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False
