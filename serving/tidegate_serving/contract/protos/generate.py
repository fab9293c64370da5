"""Makes `descriptors.binpb`, the one descriptor set that the Python and the Rust side both read.

Run by `make protos`. Our own files are compiled from the `.proto` sources beside this one; TensorFlow Serving's
(Apache-2.0) stay as they are in the set, or come anew from wheels with `--tensorflow FOLDER`, where FOLDER is one
that `pip install --no-deps --target FOLDER tensorflow-cpu` filled. TensorFlow itself is never executed.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import types
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor

HERE = Path(__file__).parent
OUTPUT = HERE / "descriptors.binpb"
TENSORFLOW_SERVING = ("prediction_service_pb2", "model_service_pb2", "session_service_pb2", "prediction_log_pb2")


def tensorflow_serving_from_wheels(folder: str) -> list[descriptor_pb2.FileDescriptorProto]:
    """TensorFlow Serving's files in dependency order, read without importing TensorFlow."""
    stub = types.ModuleType("tensorflow")
    stub.__path__ = [str(Path(folder) / "tensorflow")]
    sys.modules["tensorflow"] = stub
    found: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def walk(file: FileDescriptor) -> None:
        if file.name in found:
            return
        for dependency in file.dependencies:
            walk(dependency)
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        found[file.name] = proto

    for name in TENSORFLOW_SERVING:
        walk(importlib.import_module(f"tensorflow_serving.apis.{name}").DESCRIPTOR)
    return list(found.values())


def tensorflow_serving_from_set() -> list[descriptor_pb2.FileDescriptorProto]:
    """TensorFlow Serving's files as the checked-in set has them."""
    present = descriptor_pb2.FileDescriptorSet.FromString(OUTPUT.read_bytes())
    return [file for file in present.file if file.name not in own_names()]


def own_names() -> list[str]:
    """Our own sources. Some speak in TensorFlow Serving's package, for messages that its wheel does not carry."""
    return sorted(path.name for path in HERE.glob("*.proto"))


def own_files(foreign: list[descriptor_pb2.FileDescriptorProto]) -> list[descriptor_pb2.FileDescriptorProto]:
    """Our own files, compiled by grpcio-tools' protoc; they may import the foreign ones."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        known, output = Path(folder, "known.binpb"), Path(folder, "output.binpb")
        known.write_bytes(descriptor_pb2.FileDescriptorSet(file=foreign).SerializeToString())
        options = [f"-I{HERE}", f"--descriptor_set_in={known}", f"--descriptor_set_out={output}"]
        status = protoc.main(["protoc", *options, *own_names()])
        if status != 0:
            raise SystemExit(f"protoc refused {', '.join(own_names())} with exit status {status}; its message is above")
        return list(descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file)


def main(arguments: list[str]) -> None:
    """Writes the set, or with `--check` says whether the checked-in one is current."""
    if arguments[:1] == ["--tensorflow"]:
        foreign = tensorflow_serving_from_wheels(arguments[1])
    else:
        foreign = tensorflow_serving_from_set()
    files = descriptor_pb2.FileDescriptorSet(file=[*foreign, *own_files(foreign)])
    data = files.SerializeToString(deterministic=True)
    if arguments == ["--check"]:
        if OUTPUT.read_bytes() != data:
            raise SystemExit(f"{OUTPUT.name} is out of date: run `make protos` and commit the result")
        return
    OUTPUT.write_bytes(data)
    print(f"{OUTPUT.name}: {len(files.file)} files, {len(data)} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
