"""Work that is cut into chunks and done by processes of this machine or by Spark executors, with the same result.

A chunk's result is one Parquet part in the output directory, written where the chunk was run and renamed when it is
complete. So progress is the rows of the parts that are there, a run that was stopped goes on with the chunks that have
no part yet, and a chunk that is run twice (its executor died) leaves one part. At the end the parts become one file in
the order of the chunks, which does not depend on who ran them.
"""
