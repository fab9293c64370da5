"""One version in a process of its own, asked exactly as the engine would ask it, for the gates.

`python -m tidegate_serving.probe` speaks the protocol; the parts are here. The native data plane is never imported.
"""
