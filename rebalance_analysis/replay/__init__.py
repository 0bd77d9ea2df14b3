"""`assignor replay`: every recorded rebalance run again. `running` is the job, `work` one chunk, `rows` one row.

`counts` and `summary` add the rows up, `tables` prints them; `dataframe` does the same inside a Spark program.
"""
