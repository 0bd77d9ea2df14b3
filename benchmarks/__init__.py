"""Speed, measured as a ratio against a named peer in one run. `make bench` runs all of it."""
