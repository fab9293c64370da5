"""Lookup tables from Parquet, CSV or JSON."""
