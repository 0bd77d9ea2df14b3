"""Only the process that others are forked from imports this, after all else: what it does here, they need not do."""

import gc

from assignor_cli.app import program

program()
gc.collect()
gc.freeze()
