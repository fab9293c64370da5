"""MLflow models: handed to the platform of their flavour where there is one, else called through pyfunc."""
