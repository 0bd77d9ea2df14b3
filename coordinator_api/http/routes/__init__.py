"""The calls of the service, one file for each noun; `surface.py` has what they share."""
