"""How files are written so that they survive a crash: atomic replacement, locks, files of records."""

from tidegate_serving.files.atomic import folder_aside, remove_folder, sync, write_atomically, write_json, written_aside
from tidegate_serving.files.records import RecordFile
from tidegate_serving.files.state import file_error, hold, keep, lock, make_folder

__all__ = [
    "RecordFile",
    "file_error",
    "folder_aside",
    "hold",
    "keep",
    "lock",
    "make_folder",
    "remove_folder",
    "sync",
    "write_atomically",
    "write_json",
    "written_aside",
]
