"""The inference log as Parquet: written by the engine, read while it runs, shadow compared with primary.

Nothing here knows the engine or a gate.
"""
