"""Every input that was kept, through its decoder once more: nothing but the contract's errors comes out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.decoders import Decoders

CORPORA = Path(__file__).resolve().parents[1] / "corpora"
NAMES = ("manifests", "verdicts", "text_files", "state", "frames")


@pytest.fixture(scope="module")
def decoders(tmp_path_factory: pytest.TempPathFactory) -> Decoders:
    return Decoders(tmp_path_factory.mktemp("decoders"))


def test_every_decoder_has_a_corpus(decoders: Decoders) -> None:
    assert set(NAMES) == set(decoders.by_name)


@pytest.mark.parametrize("name", NAMES)
def test_no_kept_input_breaks_its_decoder(decoders: Decoders, name: str) -> None:
    files = sorted((CORPORA / name).iterdir())
    assert files
    for file in files:
        try:
            decoders.decode(name, file.read_bytes())
        except Exception as error:
            error.add_note(f"the input is {file}")
            raise
