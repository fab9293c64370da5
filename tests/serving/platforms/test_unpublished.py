"""Directories that nobody published: described from what lies there, with signatures that the platform discovers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.models.loading import (
    ID,
    answered,
    load_files,
    load_published,
    load_unpublished,
    outputs,
    unpublished_loader,
)
from tests.support.models.versions import Draft, fill, flip, publish, write_manifest

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import NotAdmitted, NotFound, Tampered, Unsupported
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, read_manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, TensorSpec
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.unpublished import describe_unpublished, verify_described
from tidegate_serving.platforms.version_loader import VersionLoader

TABLE = '{"a": 1, "b": 2}'
KEYS = np.array([b"b"], dtype=object)


def test_signatures_are_discovered_and_no_verdict_is_asked_for(tmp_path: Path) -> None:
    fill(tmp_path, {"t.json": TABLE})

    def refuse(manifest: Manifest, digest: str) -> None:
        raise NotAdmitted("nobody")

    path = VersionReference(ID.version, tmp_path, "", "table", unpublished=True)
    loaded = VersionLoader(ID, path, installed_platforms(PlatformOptions()), refuse).load()
    assert loaded.manifest.id == ID
    assert loaded.manifest.signatures[SERVING_DEFAULT].inputs == (TensorSpec("key", "string"),)
    assert [(entry.path, entry.size) for entry in loaded.manifest.files] == [("t.json", len(TABLE))]
    assert outputs(loaded, {"key": KEYS})["value"].tolist() == [2]


def test_links_are_followed(tmp_path: Path) -> None:
    fill(tmp_path / "data", {"deep/t.json": TABLE})
    (tmp_path / "1").mkdir()
    (tmp_path / "1/current").symlink_to(tmp_path / "data/deep")
    assert outputs(load_unpublished(tmp_path / "1", "table"), {"key": KEYS})["value"].tolist() == [2]


def test_links_that_lead_back_or_nowhere_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path, {"1/t.json": TABLE})
    (tmp_path / "1/again").symlink_to(tmp_path / "1")
    (tmp_path / "1/gone").symlink_to(tmp_path / "nothing")
    manifest = describe_unpublished(ID, "table", tmp_path / "1")
    assert [entry.path for entry in manifest.files] == ["t.json"]
    verify_described(manifest, tmp_path / "1")


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    fill(tmp_path, {"t.json": TABLE})
    os.mkfifo(tmp_path / "more.json")
    with pytest.raises(Tampered, match=r"more\.json is no plain file: remove it"):
        load_unpublished(tmp_path, "table")


def test_a_manifest_that_is_there_counts_and_is_verified(tmp_path: Path) -> None:
    directory = publish(tmp_path, "other", 7)
    loader = unpublished_loader(directory, "table")
    loaded = loader.load()
    assert (loaded.manifest.id, loaded.manifest.platform) == (ID, "python"), "served under the source's own name"
    assert answered(loaded, {"x": np.array([1], "f4")}).outputs["y"].tolist() == [2.5]
    assert loader.estimate()["ram"] > 0
    flip(directory / "model.py", 3)
    with pytest.raises(Tampered, match=r"model\.py differs"):
        loader.load()


def test_a_published_version_without_signatures_has_them_discovered(tmp_path: Path) -> None:
    directory = publish(tmp_path, "m", 1, Draft("table", {"t.json": TABLE}, example={"key": "a"}))
    write_manifest(replace(read_manifest(directory)[0], signatures={}), directory)
    assert outputs(load_published(directory), {"key": KEYS})["value"].tolist() == [2]


def test_what_cannot_be_discovered_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holds no files"):
        load_unpublished(tmp_path, "table")
    with pytest.raises(Unsupported, match="platform 'python': write one as JSON"):
        load_files(tmp_path, "python", {"model.py": "class Model: ..."})
    with pytest.raises(Unsupported, match="platform 'abacus' is unknown here"):
        unpublished_loader(tmp_path, "abacus").estimate()


def test_files_that_changed_since_they_were_described_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, {"t.json": TABLE})
    manifest = describe_unpublished(ID, "table", tmp_path)
    verify_described(manifest, tmp_path)
    for files in ({"t.json": TABLE + " "}, {"t.json": TABLE, "u.json": TABLE}):
        fill(tmp_path, files)
        with pytest.raises(Tampered, match=f"{tmp_path} changed since {ID} was loaded: put changed files into a new"):
            verify_described(manifest, tmp_path)


def test_what_was_published_is_verified_by_its_bytes(tmp_path: Path) -> None:
    directory = publish(tmp_path, "m", 1)
    manifest, _ = read_manifest(directory)
    verify_described(manifest, directory)
    flip(directory / manifest.files[0].path, 0)
    with pytest.raises(Tampered, match="differs from the manifest of m:1"):
        verify_described(manifest, directory)


def test_a_published_file_without_a_hash_is_refused(tmp_path: Path) -> None:
    directory = publish(tmp_path, "m", 1)
    manifest, _ = read_manifest(directory)
    first, *others = manifest.files
    (directory / FILE_NAME).write_bytes(replace(manifest, files=(replace(first, sha256=""), *others)).to_bytes())
    with pytest.raises(Tampered, match=f"lists {first.path} without its SHA-256: publish the version again"):
        read_manifest(directory)
