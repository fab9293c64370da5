"""The hub for programs: JSON under /api/v1, and events as they happen.

Routes check who asks and what was sent, and hand it on.
"""

from tidegate_pipelines.hub.api.router import api_router

__all__ = ["api_router"]
