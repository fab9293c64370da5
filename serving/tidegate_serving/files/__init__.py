"""How files are written so that they survive a crash: atomic replacement, locks, files of records."""
