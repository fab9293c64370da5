"""The file system that a sandboxed process sees: read-only but for a home of limited size, private folders hidden.

It is mounted in a mount namespace of its own, before the command changes its user; see mount_namespaces(7).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tidegate_validation.sandbox.supervisor import kernel
from tidegate_validation.sandbox.supervisor.settings import Settings

_WRITABLE_BY_ALL = ("/tmp", "/var/tmp", "/dev/shm")
_RESOLVER = Path("/etc/resolv.conf")
_NOWHERE = b"nameserver 192.0.2.1\noptions timeout:1 attempts:1\n"
"""A name server of TEST-NET-1 (RFC 5737), to which there is no route: look-ups fail at once and are counted."""


def build(settings: Settings, owner: int) -> None:
    """Mounts it for a process of user `owner`. Raises OSError where this machine does not allow it."""
    kernel.mount("none", "/", "", kernel.REC | kernel.PRIVATE)
    kernel.make_read_only("/")
    home = _mount_home(settings, owner)
    needed = {os.path.realpath(path): os.open(path, os.O_PATH) for path in settings.readable if Path(path).exists()}
    wanted = {os.path.realpath(settings.home), *needed}
    covers = _covers(settings, wanted, owner)
    for path in sorted(covers | needed.keys(), key=lambda one: (one.count("/"), one not in covers)):
        if path in covers:
            _cover(path, home)
        elif any(_within(path, cover) for cover in covers):
            _show(path, needed[path])
    version = os.path.realpath(settings.version)
    if not _readable(version, owner):
        _copy(version, needed[version])
    _show_writable(os.path.realpath(settings.home), home["home"])
    if not settings.network:
        _forget_name_server(home["home"])
    for descriptor in (*needed.values(), *home.values()):
        os.close(descriptor)


def _mount_home(settings: Settings, owner: int) -> dict[str, int]:
    """One file system of limited size, with a folder for each place that can be written to."""
    kernel.mount(
        "tidegate", settings.home, "tmpfs", kernel.NOSUID | kernel.NODEV, f"size={settings.disk_bytes},mode=755"
    )
    found = {}
    for name in ("home", *_WRITABLE_BY_ALL):
        folder = Path(settings.home, name.strip("/").replace("/", "-"))
        folder.mkdir()
        folder.chmod(0o700 if name == "home" else 0o1777)
        if name == "home":
            os.chown(folder, owner, -1)
        found[name] = os.open(folder, os.O_PATH)
    return found


def _covers(settings: Settings, wanted: set[str], owner: int) -> set[str]:
    """Folders to hide: those that all can write to, private ones, and those that `owner` could not pass through."""
    covers = {path for path in _WRITABLE_BY_ALL if Path(path).is_dir() and not Path(path).is_symlink()}
    covers |= {os.path.realpath(path) for path in settings.hidden if Path(path).is_dir()} - {"/"}
    for path in wanted:
        for ancestor in Path(path).parents:
            state = ancestor.stat()
            if state.st_uid != owner and not state.st_mode & stat.S_IXOTH:
                covers.add(str(ancestor))
    return covers


def _cover(path: str, home: dict[str, int]) -> None:
    Path(path).mkdir(parents=True, exist_ok=True)
    if path in home:
        kernel.mount(f"/proc/self/fd/{home[path]}", path, "", kernel.BIND)
    else:
        kernel.mount("tidegate", path, "tmpfs", kernel.NOSUID | kernel.NODEV, "size=1m,mode=755")


def _show(path: str, descriptor: int) -> None:
    """Makes what a cover hid visible again, read-only."""
    if _shown(path, descriptor):
        return
    _make_place(path, stat.S_ISDIR(os.fstat(descriptor).st_mode))
    kernel.mount(f"/proc/self/fd/{descriptor}", path, "", kernel.BIND | kernel.REC)
    kernel.make_read_only(path)


def _shown(path: str, descriptor: int) -> bool:
    try:
        here = Path(path).stat()
    except OSError:
        return False
    there = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _readable(folder: str, owner: int) -> bool:
    """Whether user `owner` may read everything in a version's directory, by the modes of its files."""
    for parent, _, names in os.walk(folder):
        for path, needed in ((parent, 0o5), *((f"{parent}/{name}", 0o4) for name in names)):
            state = Path(path).stat()
            if state.st_uid != owner and state.st_mode & needed != needed:
                return False
    return True


def _copy(folder: str, descriptor: int) -> None:
    """Puts a copy that all may read in the place of a version's directory."""
    source = f"/proc/self/fd/{descriptor}"
    kernel.mount("tidegate", folder, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=755")
    for parent, folders, names in os.walk(source):
        inside = folder + parent[len(source) :]
        for name in folders:
            Path(inside, name).mkdir(mode=0o755)
        for name in names:
            with Path(parent, name).open("rb") as original, Path(inside, name).open("wb") as copy:
                while chunk := original.read(1 << 20):
                    copy.write(chunk)
    kernel.make_read_only(folder)


def _show_writable(path: str, descriptor: int) -> None:
    _make_place(path, directory=True)
    kernel.mount(f"/proc/self/fd/{descriptor}", path, "", kernel.BIND)


def _make_place(path: str, directory: bool) -> None:
    if directory:
        Path(path).mkdir(parents=True, exist_ok=True)
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()


def _forget_name_server(home: int) -> None:
    real = os.path.realpath(_RESOLVER)
    if not Path(real).is_file():
        return
    told = Path(f"/proc/self/fd/{home}/../resolver")
    told.write_bytes(_NOWHERE)
    told.chmod(0o444)
    kernel.mount(str(told), real, "", kernel.BIND)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
