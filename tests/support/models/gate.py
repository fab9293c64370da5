"""A gate on disk that a model in another process waits at until the test opens it: a named pipe, no sleeping."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

AT_LOAD = """
import numpy as np

class Model:
    def __init__(self, directory):
        open({entered!r}, "w").close()
        open({pipe!r}, "rb").read()

    def predict(self, inputs):
        return {{"y": inputs["x"] + np.float32({added})}}
"""
AT_PREDICT = """
import numpy as np

class Model:
    def predict(self, inputs):
        if inputs["x"][0] == 666:
            open({entered!r}, "w").close()
            open({pipe!r}, "rb").read()
        return {{"y": inputs["x"] + np.float32({added})}}
"""
AT_UNLOAD = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {{"y": inputs["x"] + np.float32({added})}}

    def __del__(self):
        open({entered!r}, "w").close()
        open({pipe!r}, "rb").read()
"""


@dataclass(frozen=True)
class Gate:
    """`entered` appears once somebody waits; `open` lets one waiter through."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Gate:
        folder.mkdir(parents=True)
        os.mkfifo(folder / "pipe")
        return cls(folder)

    @property
    def entered(self) -> Path:
        return self.folder / "entered"

    @property
    def pipe(self) -> Path:
        return self.folder / "pipe"

    def source(self, template: str, added: float) -> str:
        """A model that waits at this gate."""
        return template.format(entered=str(self.entered), pipe=str(self.pipe), added=added)

    def open(self) -> None:
        """Lets one waiter through; waits for it where nobody is there yet."""
        self.pipe.write_bytes(b"go")
