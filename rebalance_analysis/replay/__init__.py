"""`assignor replay`: runs every recorded rebalance again. `replay_run`: the job; `replay_work`: the work on a chunk.

`rebalance_rows` makes the result row of a rebalance, `summary` sums up the rows, `summary_tables` prints the summary.
`dataframe` makes the result rows of a replay inside a Spark program.
"""
