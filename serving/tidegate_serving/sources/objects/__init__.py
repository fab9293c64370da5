"""Model repositories in object stores (S3, GCS, Azure, any that fsspec knows), brought to a bounded local cache.

Importing this does no work and needs no fsspec.
"""
