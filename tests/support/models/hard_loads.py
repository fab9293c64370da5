"""Models whose loads and unloads are hard on an engine, as the text of their `model.py`."""

# Never loads, and leaves a mark at `path` for each try.
COUNTS = """
with open({path!r}, "a") as tries:
    tries.write("x")
raise RuntimeError("no such luck")
"""
# Takes a while to be gone.
LEAVES_SLOWLY = """
import time

class Model:
    def __del__(self):
        time.sleep(0.05)

    def predict(self, inputs):
        return {"y": inputs["x"]}
"""
