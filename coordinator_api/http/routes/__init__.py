"""The calls of the service, one file for each noun; `http/dependencies.py` has what they share."""
