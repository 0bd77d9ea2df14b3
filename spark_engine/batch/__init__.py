"""Runs work in chunks, in processes of this machine or on Spark executors, with the same result.

Each chunk's result is one Parquet part in the output directory, written where the chunk ran and renamed once complete.
So progress is the number of rows in the existing parts. A stopped run continues with the chunks that have no part. A
chunk that runs twice, because its executor died, leaves one part. At the end the parts are merged in the order of the
chunks, so the engine does not change the result.

`work`: the interfaces. `running`: a plan from start to end. `local_engine`, `spark_engine`, `worker`: run spans of
chunks. `output_directory`, `parts`, `merging`, `beside_rows`: the files on disk. `progress`, `outcome`: the progress
shown, and the result returned. `engine`, `command_line`: the choice on the command line.
"""

RESULT_MARK, RESULT_FORMAT = "plan.json", "batch/1"
"""A directory with this file in this format has results (of `replay`, `sweep`), and no recordings."""
