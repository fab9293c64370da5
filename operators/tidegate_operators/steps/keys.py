"""Keeps a key ring: makes, adds, rotates and revokes keys, and revokes versions.

The command line calls these; a ring is a folder with `keyring.json`, which engines and `tidegate verify` trust. Each
change is made under a lock and appears all at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from tidegate_serving.admission import (
    KeyRing,
    Revocation,
    RevokedVersion,
    Role,
    TrustedKey,
    key_of,
    make_keys,
    read_ring,
    ring_file,
    write_ring,
)
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound
from tidegate_serving.contract.servable import check_name
from tidegate_serving.files import hold


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was made: its entry in the ring, and the files of its two halves."""

    key: TrustedKey
    private: Path
    public: Path


def new_key(
    ring: Path, *, name: str, role: Role = Role.VALIDATOR, days: float | None = None, comment: str = ""
) -> NewKey:
    """Makes NAME.key and NAME.pub in the ring's folder and trusts the public half; a ring that is not there is made.

    `days` is how long the key may sign, None for no end. AlreadyExists for a name whose key is in use; after a revoked
    one the files are called NAME-2.
    """
    _check_days(days)
    with _editing(ring, may_be_new=True) as edit:
        namesakes = edit.ring.named(check_name(name))
        if any(key.revoked is None for key in namesakes):
            raise AlreadyExists(f"{ring_file(ring)} has a key named {name!r}: rotate it, or take another name")
        made = _make(edit.folder, _free_stem(edit.folder, name) if namesakes else name, name, role)
        entry = replace(made.key, not_after=_after(days), comment=comment)
        edit.ring = edit.ring.with_key(entry)
    return replace(made, key=entry)


def add_key(ring: Path, public: Path, *, name: str, role: Role, comment: str = "") -> TrustedKey:
    """Trusts a public key that was made elsewhere. AlreadyExists for a key that the ring knows."""
    with _editing(ring, may_be_new=True) as edit:
        entry = replace(key_of(public, check_name(name), role, times.to_text(times.now())), comment=comment)
        if entry.id in edit.ring.keys:
            raise AlreadyExists(f"{ring_file(ring)} knows key {entry.id} already, as {edit.ring.keys[entry.id]}")
        edit.ring = edit.ring.with_key(entry)
    return entry


def rotate_key(ring: Path, *, name: str, overlap_days: float = 7.0) -> NewKey:
    """Makes the next key of a name, beside the old one, which may sign for another `overlap_days` and not after.

    What the old key signed by then stands until it expires. NotFound for a name that has no key in use.
    """
    _check_days(overlap_days, least=0.0)
    with _editing(ring) as edit:
        present = [key for key in edit.ring.named(name) if key.revoked is None]
        if not present:
            raise NotFound(f"{ring_file(ring)} has no key in use named {name!r}: make one with `tidegate keys new`")
        end = times.to_text(times.now() + timedelta(days=overlap_days))
        for key in present:
            if key.not_after is None or times.from_text(key.not_after, "not_after") > times.from_text(end, "end"):
                edit.ring = edit.ring.with_key(replace(key, not_after=end))
        newest = present[-1]
        made = _make(edit.folder, _free_stem(edit.folder, newest.name), newest.name, newest.role)
        edit.ring = edit.ring.with_key(made.key)
    return made


def revoke_key(ring: Path, *, key: str, reason: str, compromised: bool = True) -> tuple[TrustedKey, ...]:
    """Revokes a key by id, or all keys of a name. Nothing that a compromised key signed counts any more; of another,
    what it signed before now stands. NotFound for a key that the ring does not know; a revocation is never weakened.
    """
    _check_reason(reason)
    with _editing(ring) as edit:
        known = edit.ring.named(key)
        if not known:
            names = ", ".join(str(one) for one in edit.ring.keys.values()) or "none"
            raise NotFound(f"{ring_file(ring)} has no key {key!r}: it has {names}")
        revocation = Revocation(times.to_text(times.now()), reason, compromised)
        revoked = [
            one if one.revoked and (one.revoked.compromised or not compromised) else replace(one, revoked=revocation)
            for one in known
        ]
        for one in revoked:
            edit.ring = edit.ring.with_key(one)
    return tuple(revoked)


def revoke_version(ring: Path, *, manifest_digest: str, name: str, reason: str) -> RevokedVersion:
    """Says that the version with this manifest shall not load again. AlreadyExists where that was said before."""
    _check_reason(reason)
    if len(manifest_digest) != 64 or set(manifest_digest) - set("0123456789abcdef"):
        raise InvalidInput(
            f"{manifest_digest!r} is no SHA-256 in hex: name the version's directory, or the whole digest"
        )
    with _editing(ring) as edit:
        known = edit.ring.revoked_versions.get(manifest_digest)
        if known is not None:
            raise AlreadyExists(f"{known.name or manifest_digest} was revoked already at {known.at}: {known.reason}")
        revoked = RevokedVersion(manifest_digest, name, times.to_text(times.now()), reason)
        edit.ring = edit.ring.with_revoked(revoked)
    return revoked


@dataclass(slots=True)
class _RingEdit:
    """A ring under its lock; what `ring` is at the end is written."""

    folder: Path
    ring: KeyRing


@contextlib.contextmanager
def _editing(path: Path, *, may_be_new: bool = False) -> Iterator[_RingEdit]:
    folder = path.parent if path.suffix == ".json" else path
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder: name the folder of the key ring")
    if may_be_new:
        folder.mkdir(parents=True, exist_ok=True)
    file = path if path.suffix == ".json" else ring_file(folder)
    if not (may_be_new or file.exists()):
        raise NotFound(
            f"{path} is no key ring: name the folder of its keyring.json, or make one with `tidegate keys new`"
        )
    with hold(folder / ".keyring.lock"):
        before = read_ring(file) if file.exists() else KeyRing.of()
        edit = _RingEdit(folder, before)
        yield edit
        if edit.ring != before:
            write_ring(edit.ring, file)


def _make(folder: Path, stem: str, name: str, role: Role) -> NewKey:
    private, public = folder / f"{stem}.key", folder / f"{stem}.pub"
    make_keys(private, public)
    return NewKey(key_of(public, name, role, times.to_text(times.now())), private, public)


def _free_stem(folder: Path, name: str) -> str:
    number = 2
    while (folder / f"{name}-{number}.key").exists() or (folder / f"{name}-{number}.pub").exists():
        number += 1
    return f"{name}-{number}"


def _after(days: float | None) -> str | None:
    return None if days is None else times.to_text(times.now() + timedelta(days=days))


def _check_days(days: float | None, least: float | None = None) -> None:
    if days is not None and not ((days > 0 or days == least) and days <= times.MOST_DAYS):
        raise InvalidInput(f"{days:g} days is no time to sign in: use more than 0 and at most {times.MOST_DAYS}")


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise FailedPrecondition("a revocation needs a reason: say why, whoever is woken by it will ask")
