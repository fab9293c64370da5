"""What people and pipelines did or wanted to do, kept so that nobody can change it unseen: a log chained by hashes.

`line` is one line and its hash, `log` keeps lines in the database, `check` finds what is missing, changed or reordered
(`chain_check` in the background), `export` copies lines to files or an object store, `engines` brings in what engines
did and refused.
"""

from tidegate_pipelines.hub.audit.check import Fault, Verification, verify_database, verify_export, verify_lines
from tidegate_pipelines.hub.audit.export import ExportStore
from tidegate_pipelines.hub.audit.line import Act, Line, Outcome
from tidegate_pipelines.hub.audit.log import AuditLog

__all__ = [
    "Act",
    "AuditLog",
    "ExportStore",
    "Fault",
    "Line",
    "Outcome",
    "Verification",
    "verify_database",
    "verify_export",
    "verify_lines",
]
