"""The endpoint to the native data plane: what is published, how traffic is divided, who runs a batch."""
