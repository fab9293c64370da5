"""The inference log as Parquet: written by the engine, read while it runs."""
