"""How one version of one kind of model is described, loaded and called; the source adapters.

One folder per platform, none imports another; what they share lies here. No other room imports a model's framework.
"""
