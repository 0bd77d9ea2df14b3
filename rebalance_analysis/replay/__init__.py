"""`assignor replay`: runs every recorded rebalance again. `replay_run`: the job; `replay_work`: the work on a chunk.

`rebalance_rows` makes the row of a rebalance, `summary` adds the rows up, `summary_tables` prints the summary.
`dataframe` makes the same rows inside a Spark program.
"""
