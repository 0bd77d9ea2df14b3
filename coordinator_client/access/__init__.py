"""Authentication and authorization for this project's two HTTP services, the coordinator and the endpoint of an
instance.

`principals.py` has the callers, their rights, and the check of every call. `tokens.py` has the tokens and their hashes.
"""
