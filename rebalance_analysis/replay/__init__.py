"""`assignor replay`: every recorded rebalance run again. `replay_run` is the job, `replay_work` one chunk.

`rebalance_rows`: one row. `counts` and `summary` add the rows up, `summary_tables` prints them; `dataframe` does the
same inside a Spark program.
"""
