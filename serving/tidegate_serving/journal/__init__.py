"""What happened in an engine, kept across restarts: every control action with who and why, and every state change.

`entry` is what happened, `journal` keeps it; control actions are on disk before they are answered.
"""

from tidegate_serving.journal.entry import Entry, Kind
from tidegate_serving.journal.journal import Journal

__all__ = ["Entry", "Journal", "Kind"]
