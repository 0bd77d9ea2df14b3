"""`assignor replay`: runs every recorded rebalance again. `replay_run` runs the job. `replay_work` does the work of one
chunk. `rebalance_rows` makes the result row of a rebalance. `summary` computes the summary of the rows.
`summary_tables` prints the summary. `dataframe` makes result rows in a Spark program.
"""
