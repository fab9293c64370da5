"""What is known of a verdict once it is signed: by which key, as which file, and what was overridden since.

Whoever signs or overrides hands one to `write_report`; pages of unsigned verdicts have none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverrideLine:
    """One override for people: the gate, how it had come out, who overrode it, why, and until when."""

    gate: str
    outcome: str
    by: str
    reason: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class Seal:
    """`key` names the signing key, `digest` is the SHA-256 of the verdict's file in hex."""

    key: str
    digest: str
    overrides: tuple[OverrideLine, ...] = ()
