"""Reads recorded rebalances for batch jobs. `planning` divides inputs into chunks. `chunk` reads the lines of a chunk.
`parquet` reads recordings from Parquet files.
"""
