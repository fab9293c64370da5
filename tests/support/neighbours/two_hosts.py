"""Two hosts on one machine: network namespaces with a cable between them, and folders that only one of them sees.

Needs Linux, root and iproute2. Where a machine does not allow namespaces that is an error which says so.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_NET = "10.213.77."
_CURE = (
    "these tests need root and network namespaces: run them where both are, or in a container with CAP_SYS_ADMIN and "
    "CAP_NET_ADMIN"
)


@dataclass(frozen=True)
class Host:
    """A network of its own at `address`; the loopback in there is its own too."""

    name: str
    address: str

    def command(self, *command: str, hidden: Sequence[Path] = ()) -> list[str]:
        """What runs `command` there as the same process, where `hidden` folders look empty."""
        covers = [f"mount -t tmpfs -o size=1m none '{path}'" for path in hidden]
        script = " && ".join([*covers, 'exec "$@"'])
        return ["ip", "netns", "exec", self.name, "unshare", "--mount", "sh", "-c", script, "sh", *command]


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts that reach each other and nobody else; gone afterwards."""
    subprocess.run([_ROOT / "tools/toolchain.sh", "debian", "ip:iproute2"], check=True, timeout=300)
    hosts = tuple(Host(f"tidegate-{os.getpid()}-{number}", f"{_NET}{number}") for number in (1, 2))
    ends = [f"tg{os.getpid()}n{number}" for number in (1, 2)]
    try:
        for host in hosts:
            _ip("netns", "add", host.name)
        _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for host, end in zip(hosts, ends, strict=True):
            _ip("link", "set", end, "netns", host.name)
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", end)
            for device in ("lo", end):
                _ip("-n", host.name, "link", "set", device, "up")
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "delete", host.name], capture_output=True, check=False, timeout=60)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"`ip {' '.join(arguments)}` failed ({done.stderr.strip()}): {_CURE}")
