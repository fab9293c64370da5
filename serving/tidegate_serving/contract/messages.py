"""Protobuf messages from the checked-in descriptor set, in a pool of their own.

Servers and clients take message classes from here; nothing enters protobuf's default pool, so TensorFlow and the
official stubs can live in the same process.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from tidegate_serving.contract.errors import InvalidInput

# A cached function that several threads call for the first time runs in each of them: two pools would have two classes
# of one name, which do not go together.
_ONE_AT_A_TIME = threading.Lock()


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    data = resources.files("tidegate_serving.contract.protos").joinpath("descriptors.binpb").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return pool


def message(full_name: str) -> Any:
    """The message class of a full name such as `tensorflow.serving.PredictRequest`; the same one for every thread.

    KeyError for an unknown name.
    """
    return _class(full_name)


def file_of(name: str, *, by_name: bool = False) -> Any:
    """The descriptor of the file that defines a symbol, or with `by_name` is called so; None where there is none."""
    with _ONE_AT_A_TIME:
        pool = _pool()
        # To the pool a service's method is no symbol; to reflection, and with it ghz, it is one.
        finders = [pool.FindFileByName] if by_name else [pool.FindFileContainingSymbol, _file_of_method]
        for find in finders:
            with contextlib.suppress(KeyError):
                return find(name)
        return None


def _file_of_method(name: str) -> Any:
    return _pool().FindMethodByName(name).containing_service.file


def parsed(full_name: str, data: bytes, what: str) -> Any:
    """The message in bytes that somebody sent. InvalidInput, naming `what`, where they hold none."""
    try:
        return message(full_name).FromString(data)
    except DecodeError as error:
        raise InvalidInput(f"{what} is no {full_name} ({error}): send one") from error


@functools.cache
def _class(full_name: str) -> Any:
    with _ONE_AT_A_TIME:
        return message_factory.GetMessageClass(_pool().FindMessageTypeByName(full_name))
