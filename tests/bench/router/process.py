"""A router as a process of its own: `python -m tests.bench.router.process MODELS GRPC REST`.

It forwards the models, which commas divide, to one node at these addresses, prints its own as JSON, and ends with its
input.
"""

from __future__ import annotations

import json
import os
import sys

from tests.support.engine.process import ANY
from tidegate_native import Router, Settings


def main(models: str, grpc: str, rest: str) -> None:
    router = Router.start(Settings(grpc_address=ANY, rest_address=ANY), wanted=lambda name: None)
    router.apply({"node": (grpc, rest)}, {model: ["node"] for model in models.split(",")})
    print(json.dumps({"grpc": router.grpc_address, "rest": router.rest_address, "pid": os.getpid()}), flush=True)
    sys.stdin.read()
    router.stop(5)


if __name__ == "__main__":
    main(*sys.argv[1:])
