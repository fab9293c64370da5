"""Protobuf messages from the checked-in descriptor set, in a pool of their own.

Servers and clients take message classes from here; nothing enters protobuf's default pool, so TensorFlow and the
official stubs can live in the same process.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    data = resources.files("tidegate_serving.contract.protos").joinpath("descriptors.binpb").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return pool


@functools.cache
def message(full_name: str) -> Any:
    """The message class of a full name such as `tensorflow.serving.PredictRequest`. KeyError for an unknown one."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(full_name))
