"""The RPC Source: remote clients say what should be served, and that is kept on disk."""
