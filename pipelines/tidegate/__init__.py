"""The public face of Tidegate."""
