"""Brings up the services of docker/compose.yaml without a daemon: buildah runs each image in a root of its own.

They share this machine's network, so names of services lead to loopback in every container. A service starts when what
it depends on is as its condition says; everything is ended by process id.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml
from tests.support.eventually import eventually
from tools.images import ENVIRONMENT, buildah

OWNER = 10001
HEALTHY_SECONDS = 240.0
STOP_SECONDS = 30.0


class Container:
    """A container of one image: its own root, the image's configuration, and mounts as `host:inside[:ro]`."""

    def __init__(self, image: str, hosts: Sequence[str] = ()) -> None:
        added = [f"--add-host={name}:127.0.0.1" for name in hosts]
        self.name = buildah("from", "--pull-never", *added, f"localhost/{image}")
        self.config: Mapping[str, Any] = json.loads(buildah("inspect", self.name))["Docker"]["config"]

    def command(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None, mounts: Sequence[str] = ()
    ) -> list[str]:
        """The command line that runs these arguments inside."""
        variables = [f"--env={name}={value}" for name, value in (environment or {}).items()]
        volumes = [f"--volume={mount}" for mount in mounts]
        return ["buildah", "run", *variables, *volumes, self.name, "--", *arguments]

    def remove(self) -> None:
        """Its root goes."""
        buildah("rm", self.name)


class Service:
    """One service of the compose file."""

    def __init__(self, name: str, said: Mapping[str, Any], folder: Path, hosts: Sequence[str]) -> None:
        self.name, self._said, self._folder = name, said, folder
        self.container = Container(said["image"], hosts)
        self._log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, or runs it to its end where it is not restarted."""
        with self._log.open("ab") as log:
            command = self._in_container([*self._entrypoint(), *self._arguments()])
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=ENVIRONMENT
            )
        if self._said.get("restart") == "no":
            assert self.process.wait(HEALTHY_SECONDS) == 0, self.said()

    def await_healthy(self) -> None:
        """Waits until its own check is content; AssertionError with its log where it ends before."""
        test = self._said.get("healthcheck", {}).get("test")
        if test is None or self._said.get("restart") == "no":
            return
        eventually(lambda: self._has_ended() or self._passes(test[1:]), HEALTHY_SECONDS)
        assert not self._has_ended(), self.said()

    def run(self, arguments: Sequence[str]) -> str:
        """What another process in the same container prints; AssertionError with its words when it fails."""
        done = subprocess.run(
            self._in_container(arguments), capture_output=True, text=True, check=False, env=ENVIRONMENT
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def said(self) -> str:
        """The end of its log."""
        return f"{self.name}: {self._log.read_text(errors='replace')[-6000:]}"

    def stop(self) -> None:
        """Ends it by its stop signal, and then what is left of it, as the end of a container would."""
        if self.process is not None and not self._has_ended():
            number = signal.Signals[self.container.config.get("StopSignal") or "SIGTERM"]
            pids = [*_descendants(self.process.pid), self.process.pid]
            _send(pids, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
            _send(pids, signal.SIGKILL)
            self.process.wait()
        self.container.remove()

    def _has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def _passes(self, test: Sequence[str]) -> bool:
        command = self._in_container(test)
        return subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT).returncode == 0

    def _in_container(self, arguments: Sequence[str]) -> list[str]:
        return self.container.command(arguments, self._said.get("environment"), self._mounts())

    def _entrypoint(self) -> Sequence[str]:
        found: Sequence[str] = self._said.get("entrypoint", self.container.config.get("Entrypoint") or [])
        return found

    def _arguments(self) -> Sequence[str]:
        """The command; a `$$` of the file is a `$`. An entry point of the file's own drops the image's command."""
        otherwise = [] if "entrypoint" in self._said else self.container.config.get("Cmd") or []
        return [str(one).replace("$$", "$") for one in self._said.get("command", otherwise)]

    def _mounts(self) -> Sequence[str]:
        mounts = []
        for volume in self._said.get("volumes", ()):
            source, _, rest = str(volume).partition(":")
            place = (Path("docker") / source).resolve() if source.startswith(".") else self._folder / "volumes" / source
            if not place.exists():
                place.mkdir(parents=True)
                shutil.chown(place, OWNER, OWNER)
            mounts.append(f"{place}:{rest}")
        return mounts


class Composition:
    """All services of a compose file, up; a context manager that leaves nothing running."""

    def __init__(self, file: Path, folder: Path) -> None:
        self._said: Mapping[str, Any] = yaml.safe_load(file.read_text())["services"]
        self._folder = folder
        self.services: dict[str, Service] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.push(self)
            for name in self._in_order():
                service = Service(name, self._said[name], self._folder, list(self._said))
                self.services[name] = service
                for before in self._said[name].get("depends_on", ()):
                    self.services[before].await_healthy()
                service.start()
            for service in self.services.values():
                service.await_healthy()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for service in reversed(self.services.values()):
            service.stop()

    def _in_order(self) -> Iterator[str]:
        """Names of services, each after those that it depends on."""
        left = dict(self._said)
        while left:
            ready = [name for name, said in left.items() if not set(said.get("depends_on", ())) & set(left)]
            assert ready, f"services wait for each other: {', '.join(left)}"
            for name in ready:
                del left[name]
                yield name


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _descendants(pid: int) -> list[int]:
    """Process ids below one, deepest first."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    children = [int(child) for child in found]
    return [one for child in children for one in (*_descendants(child), child)]
