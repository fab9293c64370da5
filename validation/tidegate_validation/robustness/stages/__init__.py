"""The stages of an examination; each takes the examination, asks the version and adds findings. `gate` runs them."""
