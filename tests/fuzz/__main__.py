"""Looks for bytes that break a decoder in Python: `python -m tests.fuzz NAME`, then libFuzzer's options and folders.

`make fuzz` calls it, and installs Atheris for it, which nothing else needs.
"""

from __future__ import annotations

import logging
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


def main(name: str, options: list[str]) -> None:
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
        atheris.Setup([name, *options], lambda data: decoders.decode(name, data), custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
