"""A hub with nothing but sign-in and a few routes, for tests of who may do what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.testclient import TestClient

from tidegate_pipelines.hub.access import Access, require
from tidegate_pipelines.hub.access.application import protect
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.store import Database
from tidegate_serving.control.access.access_file import hash_of

TOKENS = {name: f"tg_{name}" + "x" * 40 for name in ("ci", "anna", "boss", "gone")}
