"""Whose doing a call is: the model's, also through a library, or a library's while it is imported."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from typing import Any

import pytest

from tidegate_serving.probing.own_code import asked_for_by_own, is_own

OWN, LIBRARY = "/models/flights/1/model.py", f"{sysconfig.get_path('purelib')}/some/part.py"
IMPORTING = "<frozen importlib._bootstrap>"


def called_by(filename: str, call: Callable[[], Any]) -> Callable[[], Any]:
    """A function of a file by that name, which calls another."""
    space: dict[str, Any] = {"call": call}
    exec(compile("def run():\n    return call()", filename, "exec"), space)
    run: Callable[[], Any] = space["run"]
    return run


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        ((OWN,), True),
        ((LIBRARY, OWN), True),
        ((LIBRARY, IMPORTING, OWN), False),
        ((OWN, IMPORTING, LIBRARY), True),
    ],
    ids=["itself", "through a library", "a library that is imported", "a model that is imported"],
)
def test_what_the_model_asked_for(files: tuple[str, ...], asked: bool) -> None:
    """From the innermost file outwards."""

    def innermost() -> bool:
        return asked_for_by_own(sys._getframe(1))

    call: Callable[[], Any] = innermost
    for filename in files:
        call = called_by(filename, call)
    assert call() is asked


def test_code_of_no_file_is_the_models() -> None:
    assert is_own("<string>")
    assert not is_own(pytest.__file__)
