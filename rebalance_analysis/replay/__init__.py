"""`assignor replay`: every recorded rebalance run again. `replay_run` is the job, `replay_work` one chunk.

`rebalance_rows`: one row. `summary` adds the rows up, `summary_tables` prints it; `dataframe` does the same inside a
Spark program.
"""
