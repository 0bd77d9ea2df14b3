"""Recorded rebalances as input of batch work: `planning` cuts inputs into chunks, `chunk` reads the lines of one.

`parquet`: tables of recordings.
"""
