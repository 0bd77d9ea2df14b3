"""Recorded rebalances as input of batch jobs. `planning` divides inputs into chunks, and `chunk` reads a chunk's lines.

`parquet`: reads recordings from Parquet files.
"""
