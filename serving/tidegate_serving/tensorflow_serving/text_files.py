"""Reads TensorFlow Serving's text-format files; errors name file, line and cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import text_format

from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.plain_file import read_small


def read_text_file(path: Path, kind: str, flag: str) -> Any:
    """A message of `kind`, such as `tensorflow.serving.ModelServerConfig`, from the file that `flag` names.

    Raises NotFound for a missing file, InvalidInput with file and line for one that is not of that kind.
    """
    try:
        text = read_small(path).decode()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise NotFound(f"--{flag} names {path}, which is no file: create it, or mend the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--{flag} names {path}, which cannot be read: {error}") from error
    return parse_text(text, kind, str(path))


def parse_text(text: str, kind: str, where: str) -> Any:
    """The same from text; `where` names it in messages."""
    made = message(kind)()
    try:
        text_format.Parse(text, made, descriptor_pool=made.DESCRIPTOR.file.pool)
    except text_format.ParseError as error:
        raise InvalidInput(f"Error parsing text-format {kind}: {_place(where, error)}") from error
    return made


def _place(where: str, error: text_format.ParseError) -> str:
    line, column = error.GetLine(), error.GetColumn()
    text = str(error)
    if line is None:
        return f"{where}: {text}"
    told = text.removeprefix(f"{line}:{column} : ").removeprefix(f"{line}:{column}: ")
    return f"{where}, line {line}{f', column {column}' if column else ''}: {told}; mend that line"
