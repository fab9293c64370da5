"""The only importer of TensorFlow: sessions with their parameters, errors of ops as the contract's.

Each version gets a session of its own, as in TensorFlow Serving, so that threads and memory are set per version and
closing it gives everything back.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import (
    InvalidInput,
    ModelFailed,
    OpAborted,
    OpLostData,
    OpUnknown,
    TidegateError,
    error_from,
)
from tidegate_serving.platforms.platform import library
from tidegate_serving.platforms.settings import Settings

_OF_OPS: dict[int, type[TidegateError]] = {2: OpUnknown, 10: OpAborted, 15: OpLostData}
_PASSED_ON = {1, 3, 4, 5, 6, 7, 8, 9, 11, 12, 14}


def import_tensorflow() -> Any:
    """The library, which logs little unless TF_CPP_MIN_LOG_LEVEL says otherwise. Unsupported where it is not installed.

    The allocator that TensorFlow takes with oneDNN never gives memory back, so an unloaded version would stay resident:
    the system's is asked for before TensorFlow is first imported.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
    with library("tensorflow", "tensorflow"):
        import tensorflow
    tensorflow.get_logger().addFilter(_is_not_advice)
    return tensorflow


def _is_not_advice(record: logging.LogRecord) -> bool:
    """Everything but the advice to load a SavedModel without a session, which would lose the session's parameters."""
    return "tf.saved_model.load" not in record.getMessage()


def open_session(directory: Path, tags: frozenset[str], settings: Settings) -> Any:
    """A session over the SavedModel's graph, restored and initialised. ModelFailed with TensorFlow's words."""
    tensorflow = import_tensorflow()
    v1 = tensorflow.compat.v1
    session = v1.Session(graph=tensorflow.Graph(), config=session_config(v1, settings))
    try:
        with session.graph.as_default():
            v1.saved_model.loader.load(session, sorted(tags), str(directory))
    except BaseException as error:
        session.close()
        if isinstance(error, Exception):
            raise ModelFailed(f"{directory} is a SavedModel that TensorFlow cannot load: {said(error)}") from error
        raise
    return session


def session_config(v1: Any, settings: Settings) -> Any:
    """TensorFlow's `ConfigProto`: the text that `session_config` holds, then the plainer keys over it."""
    config = v1.ConfigProto()
    text = settings.text("session_config", "")
    if text:
        from google.protobuf import text_format

        try:
            text_format.Parse(text, config)
        except text_format.ParseError as error:
            raise InvalidInput(f"'session_config' of platform tensorflow is no ConfigProto: {error}") from error
    threads = {"intra_op_threads": "intra_op_parallelism_threads", "inter_op_threads": "inter_op_parallelism_threads"}
    for key, field in threads.items():
        if key in settings:
            setattr(config, field, settings.whole_number(key, 0))
    if "memory_growth" in settings:
        config.gpu_options.allow_growth = settings.flag("memory_growth")
    if "memory_fraction" in settings:
        config.gpu_options.per_process_gpu_memory_fraction = settings.share("memory_fraction")
    return config


def prepared_run(session: Any, feeds: Sequence[str], fetches: Sequence[str]) -> Any:
    """A function of the feeds, in order, to the list of fetches; tensors by the names that the graph gives them.

    What is bfloat16 in the graph goes in and comes out as float32.

    `Session.run` and the public `make_callable` look at every feed and fetch anew at each call, which costs ten times
    what a small graph does, and put a text of their own before the op's message.
    """
    from tensorflow.core.protobuf.config_pb2 import CallableOptions

    run = session._make_callable_from_options(CallableOptions(feed=feeds, fetch=fetches))
    bfloat16 = import_tensorflow().bfloat16
    narrow, wide = ([_dtype(session.graph, name) == bfloat16 for name in names] for names in (feeds, fetches))
    return _in_float32(run, narrow, wide, bfloat16.as_numpy_dtype) if any(narrow) or any(wide) else run


def _dtype(graph: Any, name: str) -> Any:
    return graph.as_graph_element(name, allow_operation=False).dtype.base_dtype


def _in_float32(run: Any, narrow: Sequence[bool], wide: Sequence[bool], bfloat16: Any) -> Any:
    """The same function, with these feeds made bfloat16 and these fetches float32."""

    def call(*fed: Any) -> list[Any]:
        given = [value.astype(bfloat16) if of else value for value, of in zip(fed, narrow, strict=True)]
        return [found.astype("float32") if of else found for found, of in zip(run(*given), wide, strict=True)]

    return call


def error_of_op(error: Any) -> TidegateError:
    """What an op raised, with TensorFlow's message and the code that a client of TensorFlow Serving would see.

    A message that quotes a client's bytes and is not UTF-8 reaches Python as a UnicodeDecodeError, which holds it.
    """
    if isinstance(error, UnicodeDecodeError):
        return InvalidInput(error.object.decode(errors="replace"))
    code = int(error.error_code)
    if code in _PASSED_ON:
        return error_from(code, said(error))
    return _OF_OPS.get(code, ModelFailed)(said(error))


def said(error: BaseException) -> str:
    """TensorFlow's message without what its Python side puts around it."""
    text = str(getattr(error, "message", None) or error).removeprefix("Graph execution error:")
    return text.partition("\n\nOriginal stack trace")[0].strip()
