"""A manifest lists exactly the bytes of a version: what is changed, missing or added is found and named."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import eventually
from tests.support.models.versions import write_manifest

from tidegate_serving.contract.errors import InvalidInput, NotFound, Tampered, Unsupported
from tidegate_serving.contract.manifest import FileEntry, Manifest, describe_files, measure, read_manifest, verify_files
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import Signature, TensorSpec

SIGNATURE = Signature((TensorSpec("x", "float32", (-1, 4)),), (TensorSpec("y", "float32", (-1,)),))


@pytest.fixture
def version(tmp_path: Path) -> Path:
    directory = tmp_path / "half" / "3"
    (directory / "nested").mkdir(parents=True)
    (directory / "model.bin").write_bytes(b"weights")
    (directory / "nested" / "vocabulary.txt").write_bytes(b"one\ntwo\n")
    manifest = Manifest(
        id=ServableId("half", 3),
        platform="python",
        signatures={"serving_default": SIGNATURE},
        files=describe_files(directory),
        created_at="2013-06-01T00:00:00Z",
        example={"x": [1.0, 2.0, 3.0, 4.0]},
        metadata={"author": "team"},
    )
    write_manifest(manifest, directory)
    return directory


def test_reads_back_what_was_written(version: Path) -> None:
    manifest, digest = read_manifest(version)
    assert manifest.id == ServableId("half", 3)
    assert manifest.signatures == {"serving_default": SIGNATURE}
    assert [entry.path for entry in manifest.files] == ["model.bin", "nested/vocabulary.txt"]
    assert manifest.to_bytes() == (version / "manifest.json").read_bytes()
    assert len(digest) == 64
    verify_files(manifest, version)


@pytest.mark.parametrize("name", ["model.bin", "nested/vocabulary.txt"])
def test_one_flipped_byte_is_named(version: Path, name: str) -> None:
    manifest, _ = read_manifest(version)
    data = bytearray((version / name).read_bytes())
    data[0] ^= 1
    (version / name).write_bytes(data)
    with pytest.raises(Tampered, match=name):
        verify_files(manifest, version)


def test_a_file_of_another_size_is_not_read(version: Path) -> None:
    def not_called(path: Path) -> tuple[int, str]:
        raise AssertionError(f"{path} was read")

    manifest, _ = read_manifest(version)
    os.truncate(version / "model.bin", 1 << 40)
    with pytest.raises(Tampered, match=r"model\.bin differs"):
        verify_files(manifest, version, not_called)


def test_missing_and_unlisted_files_are_named(version: Path) -> None:
    manifest, _ = read_manifest(version)
    (version / "extra.so").write_bytes(b"")
    with pytest.raises(Tampered, match=r"extra\.so is not listed"):
        verify_files(manifest, version)
    (version / "extra.so").unlink()
    (version / "model.bin").unlink()
    with pytest.raises(Tampered, match=r"model\.bin.* is missing"):
        verify_files(manifest, version)


def test_links_are_refused(version: Path, tmp_path: Path) -> None:
    manifest, _ = read_manifest(version)
    (version / "link").symlink_to(tmp_path)
    with pytest.raises(InvalidInput, match="link"):
        describe_files(version)
    with pytest.raises(Tampered, match="link"):
        verify_files(manifest, version)


def test_what_is_no_plain_file_is_refused_at_once(version: Path) -> None:
    manifest, _ = read_manifest(version)
    os.mkfifo(version / "pipe")
    with pytest.raises(Tampered, match=r"pipe of .* is no plain file"):
        verify_files(manifest, version)


def test_a_file_that_became_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    measured: list[tuple[int, str]] = []
    reader = threading.Thread(target=lambda: measured.append(measure(tmp_path / "pipe")), daemon=True)
    reader.start()
    eventually(lambda: measured)
    assert measured[0][0] == 0


def test_half_a_directory_is_not_complete(version: Path) -> None:
    (version / "manifest.json").unlink()
    with pytest.raises(NotFound, match="not complete"):
        read_manifest(version)


def test_a_manifest_that_is_no_plain_file_is_refused_at_once(version: Path) -> None:
    manifest = version / "manifest.json"
    manifest.unlink()
    os.mkfifo(manifest)
    with pytest.raises(Tampered, match="is no plain file"):
        read_manifest(version)
    manifest.unlink()
    manifest.symlink_to("/dev/zero")
    with pytest.raises(Tampered, match="is no plain file"):
        read_manifest(version)
    manifest.unlink()
    with manifest.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Tampered, match="has 1099511627776 bytes, more than 33554432: publish the version again"):
        read_manifest(version)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("tidegate.manifest/1", "tidegate.manifest/2", Unsupported),
        ("tidegate.manifest/1", "tidegate.verdict/1", Unsupported),
        ('"platform"', '"platfrom"', Tampered),
        ('"float32"', '"float31"', Tampered),
        ("{", "[", Tampered),
        ("model.bin", "../model.bin", Tampered),
        ("model.bin", "nested//vocabulary.txt", Tampered),
    ],
)
def test_unusable_manifests_are_refused(version: Path, old: str, new: str, error: type[Exception]) -> None:
    path = version / "manifest.json"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(error, match=r"manifest\.json"):
        read_manifest(version)


def test_one_minor_ahead_is_read(version: Path) -> None:
    path = version / "manifest.json"
    path.write_text(path.read_text().replace("tidegate.manifest/1", "tidegate.manifest/1.1"))
    assert read_manifest(version)[0].platform == "python"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ""])
def test_entries_stay_inside(path: str) -> None:
    with pytest.raises(InvalidInput, match="inside the version directory"):
        FileEntry(path, 0, "")


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        ({"name": "x", "dtype": "int64"}, "lacks shape: write it as"),
        ({"dtype": "int64"}, "lacks name and shape: write it as"),
        ({"name": "x", "dtype": "int64", "shape": ["many"]}, "has something unusable .*many"),
        ("x", "has something unusable"),
    ],
    ids=["shape", "two", "no number", "no object"],
)
def test_a_tensor_that_is_written_wrong_is_told_what_it_lacks(tensor: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        TensorSpec.from_dict(tensor)
