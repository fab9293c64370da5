"""How files and folders are written so that nobody sees half of one and a crash loses none.

Locks and files of records too. Nothing here knows what is written.
"""

from tidegate_serving.files.atomic import (
    FULL,
    append,
    folder_aside,
    remove_folder,
    sweep_asides,
    sync,
    write_atomically,
    write_json,
    write_through_links,
    written_aside,
)
from tidegate_serving.files.records import RecordFile
from tidegate_serving.files.state import NO_MORE_OPEN, file_error, hold, keep, lock, make_folder, require_writable

__all__ = [
    "FULL",
    "NO_MORE_OPEN",
    "RecordFile",
    "append",
    "file_error",
    "folder_aside",
    "hold",
    "keep",
    "lock",
    "make_folder",
    "remove_folder",
    "require_writable",
    "sweep_asides",
    "sync",
    "write_atomically",
    "write_json",
    "write_through_links",
    "written_aside",
]
