"""The demo's steps, one module each, in the order in which `run_demo` calls them."""
