"""PyTorch modules: exported programs, TorchScript, and pickles where those are allowed."""
