"""The hub for programs: JSON under /api/v1, and events as they happen.

Routes check who asks and what was sent, and hand it on.
"""
