"""The front of the native data plane: publishes versions and applies routing, in one step each.

It decides nothing and knows no source; beside `low_priority` and `stop_signal` it alone imports `tidegate_native`.
"""
