"""Logs of other servers as tables: KServe's CloudEvents and TensorFlow Serving's PredictionLogs.

A row is one example that was asked: `request_id`, `time` where it is told, a column per input, and one per output.
A request that cannot be read, or does not fit in, is left out and counted.
"""

from tidegate_operators.steps.foreign_logs.columns import ADDED
from tidegate_operators.steps.foreign_logs.read import as_rows, is_foreign_log

__all__ = ["ADDED", "as_rows", "is_foreign_log"]
