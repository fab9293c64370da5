"""The decoders in Python as fuzzers drive them: any bytes go in, and nothing but the contract's errors may come out.

`make fuzz` looks for bytes that break one; `test_corpora.py` replays those that were kept in `tests/corpora`.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tidegate_serving.admission import (
    AdmissionRecords,
    Override,
    claimed_verdict,
    load_private_key,
    make_keys,
    open_override,
    read_ring,
    read_trust,
    trusted_verdict,
)
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.contract.probe_frames import read_frame
from tidegate_serving.contract.signature import inputs_by_name
from tidegate_serving.control.override_store import OverrideStore
from tidegate_serving.sources.rpc.store import DesiredStateStore
from tidegate_serving.tensorflow_serving.batching_file import PER_MODEL_FILE
from tidegate_serving.tensorflow_serving.command_line import parse_command_line
from tidegate_serving.tensorflow_serving.reload_call import ReloadCall

PAYLOAD_TYPE = "application/vnd.in-toto+json"
BASE_PATH = "/fuzz/models/m"
FLAGS = (
    ("--model_config_file",),
    ("--batching_parameters_file", "--enable_batching", f"--model_base_path={BASE_PATH}"),
    ("--monitoring_config_file", f"--model_base_path={BASE_PATH}"),
    ("--platform_config_file", f"--model_base_path={BASE_PATH}"),
    ("--tensorflow_session_config_file", f"--model_base_path={BASE_PATH}"),
)
"""The flag that names the file, and what goes with it."""

Decoder = Callable[[bytes], None]


class Decoders:
    """All of them, with a folder for the files that they read. The first byte says which one of several is meant."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "input"
        self._version = folder / "m" / "1"
        self._state = folder / "state"
        for inner in (self._version, self._state / "overrides", self._state / "desired"):
            inner.mkdir(parents=True)
        make_keys(folder / "validator.key", folder / "validator.pub")
        self._key = load_private_key(folder / "validator.key")
        self._ring = read_trust([folder / "validator.pub"])
        self.by_name: dict[str, Decoder] = {
            "manifests": self._manifest,
            "verdicts": self._signed,
            "text_files": self._text_file,
            "state": self._state_file,
            "frames": self._frames,
        }

    def decode(self, name: str, data: bytes) -> None:
        """Hands the bytes to a decoder. Whatever it raises but the contract's errors is a fault."""
        with suppress(TidegateError):
            self.by_name[name](data)

    def _manifest(self, data: bytes) -> None:
        (self._version / FILE_NAME).write_bytes(data)
        manifest, _ = read_manifest(self._version)
        inputs_by_name(manifest.signatures)
        manifest.to_bytes()

    def _signed(self, data: bytes) -> None:
        """An envelope; or a statement that is signed as it should be; or a ring of keys."""
        kind, data = data[:1], data[1:]
        self._file.write_bytes(data if kind in (b"0", b"3") else self._sealed(data))
        if kind == b"0":
            claimed_verdict(self._file)
        elif kind == b"1":
            trusted_verdict(self._file, self._ring)
        elif kind == b"2":
            Override.from_dict(open_override(self._file).predicate(), str(self._file))
        else:
            read_ring(self._file).joined(self._ring)

    def _sealed(self, payload: bytes) -> bytes:
        signature = self._key.sign(
            b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
        )
        (name,) = self._ring.keys
        envelope = {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": name, "sig": base64.b64encode(signature).decode()}],
        }
        return json.dumps(envelope).encode()

    def _text_file(self, data: bytes) -> None:
        """A file that a flag of TensorFlow Serving names; or the batching of one version; or a request to reload."""
        kind, data = data[:1], data[1:]
        if kind == b"6":
            config = EngineConfig(allow_unverified=True, allow_unpublished=True, allow_reload_requests=True)
            ReloadCall(lambda: config, lambda models: None, lambda: {"a_total": 1.0})(data)
        elif kind == b"5":
            (self._version / PER_MODEL_FILE).write_bytes(data)
            own = ("--enable_batching", "--enable_per_model_batching_parameters")
            parse_command_line([*own, f"--model_base_path={self._version.parent}"], {}).config()
        else:
            flag, *others = FLAGS[b"01234".find(kind)]
            self._file.write_bytes(data)
            parse_command_line([f"{flag}={self._file}", *others], {}).config()

    def _state_file(self, data: bytes) -> None:
        """What an engine keeps of itself and reads when it starts: overrides, desired states, admissions."""
        kind, data = data[:1], data[1:]
        if kind == b"0":
            (self._state / "overrides" / "m.json").write_bytes(data)
            OverrideStore(self._state).get("m")
        elif kind == b"1":
            (self._state / "desired" / "m.json").write_bytes(data)
            DesiredStateStore(self._state).close()
        else:
            self._file.write_bytes(data)
            AdmissionRecords(self._file).overridden()

    def _frames(self, data: bytes) -> None:
        """What a model's process answers its gate."""
        stream = io.BytesIO(data)
        while read_frame(stream) is not None:
            pass
