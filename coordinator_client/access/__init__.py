"""Authentication and authorization for this project's two HTTP services, the coordinator and the endpoint of an
instance.

`principals.py` defines the callers and their rights, and checks every call. `tokens.py` defines tokens and their
hashes.
"""
