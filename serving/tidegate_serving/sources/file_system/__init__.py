"""The file system source: folders that are looked at again and again for versions to serve."""
