"""Sources say which versions should be live: the file system, a remote client, a fixed list; a router hands them on."""
