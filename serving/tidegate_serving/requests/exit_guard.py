"""Ends the process where a stop hangs, from a thread that needs no Python; the stop signal's way goes through it."""

from __future__ import annotations

from tidegate_native import ExitGuard

__all__ = ["ExitGuard"]
