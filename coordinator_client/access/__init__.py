"""Who may call our two HTTP services, the coordinator and the endpoint of an instance, and what each caller may do.

`principals.py` has callers and the rule that every call passes, `tokens.py` the tokens and their hashes.
"""
