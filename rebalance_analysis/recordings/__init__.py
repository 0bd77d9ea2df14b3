"""Recorded rebalances as input of batch work: `planning` cuts inputs into chunks, `chunk_reading` gives their lines.

`chunk`: where a chunk lies, and the file of an input that can be read only once. `parquet`, `columns`: tables of
recordings.
"""
