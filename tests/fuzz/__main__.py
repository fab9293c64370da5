"""Looks for bytes that break the decoder in Python that the environment variable `DECODER` names.

`tools/fuzz.py` calls it and installs Atheris for it, which nothing else needs. Its arguments are the program that calls
it again, since libFuzzer starts itself anew to merge corpora, and libFuzzer's options and folders.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path
from random import Random

import atheris
from tests.fuzz.mutations import altered_json, altered_text

with atheris.instrument_imports(include=["tidegate_serving", "google.protobuf.text_format"]):
    from tests.fuzz.decoders import Decoders

WITHOUT_KIND = ("manifests", "frames")
"""Inputs of the others begin with a byte that says what they are."""


def main(name: str, arguments: list[str]) -> None:
    """Fuzzes until an option says enough, or a decoder breaks; both end the process."""
    logging.disable()
    head = 0 if name in WITHOUT_KIND else 1

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        kind, body = data[:head], data[head:]
        try:
            altered = (altered_text if name == "text_files" else altered_json)(body, random)
        except (ValueError, RecursionError):
            altered = b""
        if altered and len(altered) + head <= most and random.random() < 0.7:
            return kind + altered
        return atheris.Mutate(data, most)  # type: ignore[no-any-return]

    with tempfile.TemporaryDirectory() as folder:
        decoders = Decoders(Path(folder))
        atheris.Setup(arguments, lambda data: decoders.decode(name, data), custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main(os.environ["DECODER"], sys.argv[1:])
