"""`assignor replay`: runs every recorded rebalance again. `replay_run`: the job. `replay_work`: the work on a chunk.

`rebalance_rows` makes the result row of a rebalance. `summary` sums up the rows. `summary_tables` prints the summary.
`dataframe` makes result rows in a Spark program.
"""
