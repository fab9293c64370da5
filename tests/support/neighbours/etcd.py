"""A real etcd of Debian's in a process of its own, which can be killed and started again over the same folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.engine.process import free_port
from tests.support.eventually import eventually

from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.fleet.etcd.client import Etcd

_TOOLCHAIN = Path(__file__).resolve().parents[3] / "tools/toolchain.sh"


@dataclass
class EtcdProcess:
    """One member that is a cluster of its own; `address` is where it answers."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self) -> Etcd:
        return Etcd(self.address)

    def start(self) -> None:
        """Starts it and waits until it answers."""
        client, peer = f"http://{self.address}", f"http://127.0.0.1:{free_port()}"
        command = [program(), "--name", "one", "--data-dir", str(self.folder / "data"), "--unsafe-no-fsync"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--log-level", "error"]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"one={peer}"]
        with (self.folder / "etcd.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self._answers)

    def kill(self) -> None:
        """Ends it at once; what was committed stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            self.process = None

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It stands still meanwhile: connections come to it, and nothing is answered."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)  # Until all its threads stand still, it may answer.
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def copy(self) -> Path:
        """A copy of all that it has, as a backup is taken; it stops for that and starts again."""
        self.kill()
        kept = Path(tempfile.mkdtemp(prefix="kept-", dir=self.folder))
        shutil.copytree(self.folder / "data", kept / "data")
        self.start()
        return kept / "data"

    def restore(self, kept: Path) -> None:
        """Has only what a copy has: what was written since then is lost, and revisions come a second time."""
        self.kill()
        shutil.rmtree(self.folder / "data")
        shutil.copytree(kept, self.folder / "data")
        self.start()

    def empty(self) -> None:
        """Has nothing any more, as one whose disk was lost."""
        self.kill()
        shutil.rmtree(self.folder / "data")
        self.start()

    def _answers(self) -> bool:
        etcd = self.client()
        try:
            etcd.read("/")
        except Unavailable:
            return False
        finally:
            etcd.close()
        return True


@contextmanager
def etcd_process() -> Iterator[EtcdProcess]:
    """A running etcd."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-etcd-"))
    server = EtcdProcess(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)


def program() -> str:
    """Its path; it is fetched where the machine has none."""
    command = [str(_TOOLCHAIN), "unpacked", "etcd:etcd-server"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def assert_arguments_are_known(arguments: Sequence[str]) -> None:
    """AssertionError where a real etcd has no such option; the one that names its version runs nothing."""
    found = subprocess.run([program(), *arguments, "--version"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
