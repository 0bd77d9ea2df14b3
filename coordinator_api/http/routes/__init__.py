"""The calls of the service, one file for each noun. `http/dependencies.py` has the code that they share."""
