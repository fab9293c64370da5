"""Signatures are read off saved_model.pb without TensorFlow; any other bytes are refused with an error of ours."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.contract.messages import message
from tidegate_serving.platforms.tensorflow.saved_model import FILE, TEXT_FILE, read_meta_graph

SERVE = frozenset({"serve"})


def saved_model(filler: bytes = b"") -> bytes:
    """One meta graph with a signature, behind fields that are stepped over."""
    graph = message("tensorflow.MetaGraphDef")()
    graph.meta_info_def.tags.append("serve")
    graph.signature_def["f"].inputs["x"].name = "x:0"
    data: bytes = graph.SerializeToString()
    return b"\x08\x01" + filler + bytes([2 << 3 | 2, len(data)]) + data


@given(st.binary(max_size=60), st.integers(0, 100), st.integers(0, 255))
def test_any_bytes_are_a_saved_model_or_refused(data: bytes, position: int, byte: int) -> None:
    whole = bytearray(saved_model())
    whole[position % len(whole)] = byte
    with tempfile.TemporaryDirectory() as folder:
        for content in (data, bytes(whole), saved_model() + data):
            Path(folder, FILE).write_bytes(content)
            with contextlib.suppress(TidegateError):
                assert set(read_meta_graph(Path(folder), SERVE).meta_info_def.tags) == SERVE


@pytest.mark.parametrize("filler", [b"", b"\x19" + bytes(8), b"\x1d" + bytes(4), b"\x1a\x03abc"])
def test_other_fields_are_stepped_over(tmp_path: Path, filler: bytes) -> None:
    (tmp_path / FILE).write_bytes(saved_model(filler))
    assert read_meta_graph(tmp_path, SERVE).signature_def["f"].inputs["x"].name == "x:0"


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(saved_model()[:-1])
    with pytest.raises(InvalidInput, match="no SavedModel, or cut short"):
        read_meta_graph(tmp_path, SERVE)


def test_a_saved_model_may_be_text(tmp_path: Path) -> None:
    text = str(message("tensorflow.SavedModel").FromString(saved_model()))
    (tmp_path / TEXT_FILE).write_text(text)
    assert read_meta_graph(tmp_path, SERVE).signature_def["f"].inputs["x"].name == "x:0"
    (tmp_path / TEXT_FILE).write_text(text.replace("meta_graphs", "meta_grafs"))
    with pytest.raises(InvalidInput, match=r"saved_model\.pbtxt is no SavedModel in text form \(2:1"):
        read_meta_graph(tmp_path, SERVE)


CUT_SHORT = """
import os, sys
from pathlib import Path
from tests.serving.platforms.tensorflow.test_saved_model_bytes import FILE, saved_model
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.platforms.tensorflow.saved_model import _meta_graphs
path = Path(sys.argv[1], FILE)
path.write_bytes(saved_model() * 2)
graphs = _meta_graphs(path)
next(graphs)
os.truncate(path, 0)
try:
    next(graphs)
except InvalidInput as error:
    print(error)
"""


def test_a_file_that_is_cut_short_meanwhile_ends_nobody(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CUT_SHORT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "no SavedModel, or cut short (the file ends before byte" in done.stdout, done
