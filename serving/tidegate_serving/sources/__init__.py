"""Sources say which versions should be live: folders, object stores, MLflow's registry, pipelines (RPC), a fixed list.

One folder per kind of source; each calls its target with the whole set. Nothing here loads a model.
"""
