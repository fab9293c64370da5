"""Builds the container images of docker/ with buildah, which needs no daemon: what `make images` does.

Each image is NAME.Dockerfile over a context of docker/ and the two wheels. Where public images can be had, `--base` and
`--debian` name them; without, a base is made of Debian's packages, once, and kept as localhost/tidegate/base.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCKER = ROOT / "docker"
CONTEXT = ROOT / "build/images"
IMAGES = ("engine", "pipeline-steps", "hub", "mlflow", "airflow", "postgres", "etcd")
OF_DEBIAN = ("postgres", "etcd")
LOCAL_BASE = "localhost/tidegate/base:bookworm"
PACKAGES = "ca-certificates,python3,python3-venv"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
ENVIRONMENT = {**os.environ, "BUILDAH_ISOLATION": "chroot", "BUILDAH_FORMAT": "docker"}


@dataclass(frozen=True, slots=True)
class Built:
    """An image: its name with tag, and the bytes of its compressed layers."""

    name: str
    compressed_bytes: int


def buildah(*arguments: str | Path) -> str:
    """Runs one command of buildah's; what it printed. CalledProcessError, after its own words, when it fails."""
    command = ["buildah", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT).stdout.strip()


def tag(image: str) -> str:
    """The name under which an image is built, with this version's tag."""
    return f"localhost/tidegate/{image}:{metadata.version('tidegate')}"


def make_base() -> str:
    """An image of Debian's smallest system with Python, where there is none yet; its name.

    The machine's own certificates go into it, as the build reaches package indexes on the machine's way.
    """
    if LOCAL_BASE not in {
        name for line in json.loads(buildah("images", "--json") or "[]") for name in line["names"] or ()
    }:
        with tempfile.TemporaryDirectory(prefix="tidegate-base-") as name:
            system = Path(name) / "system"
            command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(system)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            for left in (*system.glob("var/cache/apt/archives/*.deb"), *system.glob("var/lib/apt/lists/*_*")):
                left.unlink()
            shutil.copy(CERTIFICATES, system / CERTIFICATES.relative_to("/"))
            container = buildah("from", "scratch")
            buildah("add", "--quiet", container, system, "/")
            buildah("commit", "--quiet", "--rm", container, LOCAL_BASE)
    return LOCAL_BASE


def fill_context(wheels: Sequence[Path]) -> None:
    """docker/ and the wheels, and nothing else, so that no secret of a checkout gets near an image."""
    shutil.rmtree(CONTEXT, ignore_errors=True)
    shutil.copytree(DOCKER, CONTEXT)
    (CONTEXT / "wheels").mkdir()
    for wheel in wheels:
        shutil.copy(wheel, CONTEXT / "wheels")


def build(image: str, base: str) -> Built:
    """Builds one image; its name and size."""
    arguments = {"BASE": base, "VERSION": metadata.version("tidegate"), "REVISION": _revision()}
    options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
    buildah(
        "bud", "--quiet", "--layers", *options, "--tag", tag(image), "--file", CONTEXT / f"{image}.Dockerfile", CONTEXT
    )
    return Built(tag(image), _compressed_bytes(tag(image)))


def _revision() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _compressed_bytes(name: str) -> int:
    """The layers as a registry would hold them."""
    with tempfile.TemporaryDirectory(prefix="tidegate-image-") as folder:
        buildah("push", "--quiet", name, f"oci:{folder}:image")
        index = json.loads((Path(folder) / "index.json").read_text())
        blobs = Path(folder) / "blobs/sha256"
        manifest = json.loads((blobs / index["manifests"][0]["digest"].removeprefix("sha256:")).read_text())
        return sum(layer["size"] for layer in manifest["layers"])


def main() -> None:
    """Builds the images named on the command line, all of them where none is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="*", default=IMAGES, metavar="IMAGE", help=f"of {', '.join(IMAGES)}")
    parser.add_argument("--wheel", type=Path, action="append", required=True, help="tidegate's and tidegate-native's")
    parser.add_argument("--base", help="an image with Python 3.11, such as python:3.11-slim-bookworm")
    parser.add_argument("--debian", help="an image of Debian 12, such as debian:bookworm-slim")
    given = parser.parse_args()
    if unknown := set(given.images) - set(IMAGES):
        parser.error(f"no image is called {', '.join(sorted(unknown))}: use {', '.join(IMAGES)}")
    fill_context(given.wheel)
    for image in given.images:
        base = (given.debian if image in OF_DEBIAN else given.base) or make_base()
        built = build(image, base)
        print(f"{built.name}: {built.compressed_bytes / 2**20:.0f} MiB compressed", flush=True)


if __name__ == "__main__":
    main()
