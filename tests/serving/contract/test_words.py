"""What somebody's code raised is told in few words, whatever it raised."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.words import place_of, trace_of, words_of

LARGE = 50_000_000


def text() -> None:
    raise ValueError("x" * LARGE)


def key() -> None:
    raise KeyError("x" * LARGE)


def several_arguments() -> None:
    raise ValueError(b"x" * LARGE, ["y" * 1000] * LARGE, {"z"})


def loops_to_itself() -> None:
    error = ValueError("loops")
    raise error from error


def loops_over_another() -> None:
    first, second = ValueError("loops"), KeyError("too")
    first.__context__, second.__cause__ = second, first
    raise first


def text_raises() -> None:
    class Nameless(Exception):
        def __str__(self) -> str:
            raise RuntimeError("it has none")

    raise Nameless


def text_ends_the_program() -> None:
    class Last(BaseException):
        def __str__(self) -> str:
            raise SystemExit

    raise Last


def class_has_no_name() -> None:
    class Names(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise SystemExit

    class Nameless(Exception, metaclass=Names):
        pass

    raise Nameless


def causes_raise() -> None:
    class Nameless(Exception):
        @property
        def __notes__(self) -> list[str]:  # type: ignore[override]
            raise RuntimeError("there are none")

    raise Nameless("whose notes raise")


def deep() -> None:
    def deeper(depth: int) -> None:
        if depth == 0:
            raise ValueError("deep")
        deeper(depth - 1)

    deeper(800)


def long_chain() -> None:
    error: Exception | None = None
    for number in range(10_000):
        following = ValueError(number)
        following.__cause__ = error
        error = following
    assert error is not None
    raise error


def group() -> None:
    raise ExceptionGroup("many", [ValueError("x" * 1000)] * 100_000)


def long_name() -> None:
    raise type("N" * LARGE, (Exception,), {})("named")


def noted() -> None:
    error = ValueError("noted")
    error.__notes__ = ["x" * LARGE] * 1000
    raise error


def from_a_file_without_end() -> None:
    exec(compile("raise ValueError('zeros')", "/dev/zero", "exec"))


def no_text_of_unicode() -> None:
    raise ValueError("\ud800")


def caused() -> None:
    try:
        noted()
    except ValueError as error:
        raise KeyError("second") from error


def raised_by(fail: Callable[[], None]) -> BaseException:
    try:
        fail()
    except BaseException as error:
        return error
    raise AssertionError("it raises")


@pytest.mark.parametrize(
    "fail",
    [
        text,
        key,
        several_arguments,
        loops_to_itself,
        loops_over_another,
        text_raises,
        text_ends_the_program,
        class_has_no_name,
        causes_raise,
        deep,
        long_chain,
        group,
        long_name,
        noted,
        from_a_file_without_end,
        no_text_of_unicode,
    ],
)
def test_whatever_was_raised_takes_few_words_and_little_time(fail: Callable[[], None]) -> None:
    error = raised_by(fail)
    began = time.process_time()
    words, trace, (kind, _, _) = words_of(error), trace_of(error), place_of(error)
    assert time.process_time() - began < 0.5
    assert len(words) < 3000
    assert len(trace) < 64_000
    assert len(kind) < 1000
    words.encode()
    trace.encode()


def test_a_trace_has_what_was_raised_first_first_and_where() -> None:
    error = raised_by(caused)
    assert trace_of(error).count("Traceback (most recent call last):") == 2
    first, _, second = trace_of(error).partition("The above exception was the direct cause")
    assert "raise error\nValueError: noted" in first
    assert second.endswith("KeyError: 'second'")
    assert place_of(error)[0] == "ValueError"


def test_errors_of_ours_have_bounded_texts_too() -> None:
    error = InvalidInput("x" * LARGE, "y" * LARGE)
    assert len(str(error)) < 20_000
    assert len(error.message) < 20_000
    assert error.details is None
    assert InvalidInput("x", "[]").details == "[]"
