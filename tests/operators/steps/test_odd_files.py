"""What a person names, or an attacker put under that name, is a pipe, a device or without end: refused at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate_operators.steps.foreign_logs import as_rows
from tidegate_operators.steps.publish import Publication, publish, read_signatures
from tidegate_operators.steps.skew import read_labels
from tidegate_serving.admission.keys import load_private_key, load_public_key
from tidegate_serving.admission.trust import read_trust
from tidegate_serving.connection import read_secret
from tidegate_serving.contract import plain_file
from tidegate_serving.contract.errors import InvalidInput, NotFound, Tampered, TidegateError
from tidegate_serving.contract.plain_file import MOST_BYTES, read_given
from tidegate_serving.control.access.certificate_files import read_pem
from tidegate_serving.tensorflow_serving.text_files import read_text_file
from tidegate_serving.typed_config import read_toml
from tidegate_validation.expectations.suite import read_suite
from tidegate_validation.golden_requests import read_golden_requests
from tidegate_validation.robustness.failing_inputs import read_failing_input
from tidegate_validation.statistics import read_profile
from tidegate_validation.tables import read_table


def _publish(**given: Any) -> Callable[[Path], Any]:
    def run(path: Path) -> Any:
        model = path.parent / "model"
        model.mkdir()
        (model / "model.py").write_text("")
        named = dict.fromkeys(given, path)
        x, y = ({"name": name, "dtype": "float32", "shape": [-1]} for name in "xy")
        signature = {"inputs": [x], "outputs": [y]}
        described: dict[str, Any] = {"signature": signature, "example": {"x": 1.0}, **named}
        return publish(Publication([model], "m", 1, "python", path.parent / "models", **described))

    return run


READERS: dict[str, Callable[[Path], Any]] = {
    "signature.json": read_signatures,
    "example.json": _publish(example=True),
    "warm_up": _publish(warm_up=True),
    "training.parquet": lambda path: read_table(path, "training data"),
    "training.csv": lambda path: read_table(path, "training data"),
    "training.jsonl": lambda path: read_table(path, "training data"),
    "training.arrow": lambda path: read_table(path, "training data"),
    "labels.jsonl": read_labels,
    "events.jsonl": as_rows,
    "golden.parquet": read_golden_requests,
    "suite.json": read_suite,
    "profile.json": lambda path: read_profile(path.parent),
    "failing": read_failing_input,
    "policy.toml": lambda path: read_toml(path, "policy"),
    "token": read_secret,
    "keyring.json": lambda path: read_trust([path]),
    "validator.pub": load_public_key,
    "validator.key": load_private_key,
    "ca.pem": lambda path: read_pem(path, "ca"),
    "models.config": lambda path: read_text_file(path, "tensorflow.serving.ModelServerConfig", "model_config_file"),
}
UNBOUNDED = ("signature.json", "suite.json", "profile.json", "policy.toml", "token", "keyring.json", "ca.pem")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_refused_at_once(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(TidegateError, match=name) as refused:
        READERS[name](path)
    assert type(refused.value) in (InvalidInput, NotFound, Tampered)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_file_that_is_larger_than_all_memory_is_refused_at_once(name: str, tmp_path: Path) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(TidegateError, match=rf"{name}.* has {1 << 42} bytes, more than {MOST_BYTES}"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", ["signature.json", "suite.json", "profile.json", "keyring.json"])
def test_nesting_without_end_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("[" * 1_000_000)
    with pytest.raises(TidegateError, match=name):
        READERS[name](tmp_path / name)


def test_what_only_calls_itself_a_file_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /proc/kmsg does: a pipe stands in for it, which is taken for a file, and whose writer has written nothing."""
    monkeypatch.setattr(plain_file, "check_plain", lambda path, found: None)
    os.mkfifo(tmp_path / "kmsg")
    writer = os.open(tmp_path / "kmsg", os.O_RDWR)
    with pytest.raises(InvalidInput, match="kmsg has nothing to read now"):
        read_given(tmp_path / "kmsg", "log", "name another")
    os.close(writer)
