"""The package as people get it: built, and installed into an environment of its own, outside of the checkout."""
