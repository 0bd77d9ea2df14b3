"""How long a record takes from its producer to a reader of the results: `running.py` has the command."""
