"""Loads one version in a process of its own, exactly as the engine would, and answers frames on its standard input.

The robustness gate starts `python -m tidegate_serving.probe VERSION_DIRECTORY`, writes predict frames, reads answers;
whatever the version does, crashing included, it does to this process only.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unsupported
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.contract.probe_frames import Frame, read_frame, write_frame
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.platforms.loader import Loaded
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.tensor_checks import check_inputs, check_outputs
from tidegate_serving.platforms.version_loader import VersionLoader
from tidegate_serving.platforms.warm_up import ask
from tidegate_serving.sources.target import VersionPath

_PAGE = os.sysconf("SC_PAGE_SIZE")


def load(directory: Path, options: PlatformOptions) -> Loaded:
    """The version, verified, loaded and warmed up; nothing is asked of a verdict, which is what the gate is about."""
    manifest, digest = read_manifest(directory)
    path = VersionPath(directory, digest, manifest.platform)
    return VersionLoader(manifest.id, path, installed_platforms(options), _admit).load()


def answer(loaded: Loaded, request: Frame) -> Frame:
    """The answer to one frame: `outputs`, `error` for a typed refusal, or `stopped`."""
    if request.kind == "stop":
        return Frame("stopped", request.token)
    try:
        return _outputs(loaded, request)
    except TidegateError as error:
        return Frame("error", request.token, {"code": error.code, "message": error.message})


def serve(directory: Path, options: PlatformOptions, requests: BinaryIO, answers: BinaryIO) -> int:
    """Loads, then answers until told to stop or the requests end. Returns 0, or 1 where the version did not load."""
    begun = time.monotonic()
    try:
        loaded = load(directory, options)
    except TidegateError as error:
        write_frame(answers, Frame("failed", "", {"code": error.code, "message": error.message}))
        return 1
    write_frame(answers, _loaded(loaded.manifest, time.monotonic() - begun))
    while (request := read_frame(requests)) is not None:
        response = answer(loaded, request)
        write_frame(answers, response)
        if response.kind == "stopped":
            break
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Moves the frames' stream away from standard output first, so that a model that prints corrupts nothing."""
    parser = argparse.ArgumentParser(prog="tidegate_serving.probe", description=__doc__)
    parser.add_argument("directory", type=Path, help="version directory with a manifest.json")
    parser.add_argument("--allow-pickle", action="store_true", help="load pickle files, which can run any code")
    parsed = parser.parse_args(arguments)
    requests, answers = _take_standard_streams()
    return serve(parsed.directory, PlatformOptions(allow_pickle=parsed.allow_pickle), requests, answers)


def _take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Frames keep the original descriptors; for the model, standard input is empty and standard output is the error
    stream.
    """
    sys.stdout.flush()
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _outputs(loaded: Loaded, request: Frame) -> Frame:
    if request.kind != "predict":
        raise Unsupported(f"frame {request.kind!r} is unknown: send predict or stop")
    name = str(request.head.get("signature", SERVING_DEFAULT))
    signature = loaded.manifest.signatures.get(name)
    if signature is None:
        known = ", ".join(loaded.manifest.signatures)
        raise InvalidInput(f"signature {name!r} of {loaded.manifest.id} is unknown: use one of {known}")
    rows = check_inputs(signature, request.tensors)
    begun = time.monotonic()
    result = ask(loaded.servable, name, request.tensors)
    for error in result.errors.values():
        raise error
    outputs = check_outputs(loaded.manifest.id, signature, rows, result.outputs)
    head = {"seconds": time.monotonic() - begun, "resident_bytes": _resident_bytes()}
    return Frame("outputs", request.token, head, outputs)


def _loaded(manifest: Manifest, seconds: float) -> Frame:
    signatures = {name: signature.to_dict() for name, signature in manifest.signatures.items()}
    return Frame("loaded", "", {"seconds": seconds, "resident_bytes": _resident_bytes(), "signatures": signatures})


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE


def _admit(manifest: Manifest, digest: str) -> None:
    """The probe runs before there is a verdict."""


if __name__ == "__main__":
    sys.exit(main())
