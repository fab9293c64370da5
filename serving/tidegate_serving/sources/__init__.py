"""Sources say which versions should be live: folders, object stores, MLflow's registry, remote calls, a fixed list."""
