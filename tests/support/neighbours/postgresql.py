"""A real PostgreSQL server of Debian's in a process of its own, over a folder that goes away."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier
from tests.support.engine.process import free_port
from tests.support.eventually import eventually

_DEBIAN = Path("/usr/lib/postgresql")
_SERVER = ("-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=200")
_TOOLCHAIN = Path(__file__).resolve().parents[3] / "tools/toolchain.sh"


@dataclass
class PostgreSQL:
    """A cluster that can be stopped and started again; `url` is of a database that is empty at first."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.database("postgres")

    def database(self, name: str) -> str:
        """The address of one database of the cluster."""
        return f"postgresql://hub@127.0.0.1:{self.port}/{name}"

    def new_database(self, name: str, like: str = "template1") -> str:
        """Makes a database, empty or like another one that nobody is connected to; its address."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(Identifier(name), Identifier(like))
            )
        return self.database(name)

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        data = self.folder / "data"
        command = [*_as_user(), str(program("postgres")), "-D", str(data), "-p", str(self.port)]
        command += ["-k", str(self.folder), *_SERVER]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        ready = [str(program("pg_isready")), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        eventually(lambda: subprocess.run(ready, check=False).returncode == 0, 60)

    def stop(self) -> None:
        """Ends the server at once; what was committed stays."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
            self.process = None

    def run(self, name: str, *arguments: str) -> None:
        """One of PostgreSQL's programs, as the server's user."""
        command = [*_as_user(), str(program(name)), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """A running server. Its folder is not pytest's, which only root may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-postgresql-"))
    server = PostgreSQL(folder)
    try:
        if os.geteuid() == 0:
            user = pwd.getpwnam(_user())
            os.chown(folder, user.pw_uid, user.pw_gid)
        server.run("initdb", "-D", str(folder / "data"), "-U", "hub", "--auth=trust", "-E", "UTF8", "--no-sync")
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def program(name: str) -> Path:
    """Where Debian has it, outside PATH; the newest version. It is installed where it is missing."""
    if not any(_DEBIAN.glob("*/bin/postgres")):
        subprocess.run([str(_TOOLCHAIN), "debian", "postgres:postgresql"], check=True)
    return max(_DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))


def _user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _as_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["setpriv", f"--reuid={_user()}", "--clear-groups", "--"] if os.geteuid() == 0 else []
