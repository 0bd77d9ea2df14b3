"""The routes of the service, one file for each kind of resource. `http/dependencies.py` has the code that the routes
share.
"""
