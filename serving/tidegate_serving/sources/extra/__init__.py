"""Sources that the config adds by tables `[sources.NAME]`: built in, or from installed packages."""
