"""What a program does with an engine that lives in it: serve callables and folders, ask them, look at them."""
