"""`assignor sweep`: makes forecasts from every episode of recorded groups, for every combination of a grid of config
values. An episode is a rebalance in which the instances of the group changed.

`sweep_run` runs the job from the inputs to the results. `grid` has the combinations of config values. `episodes` finds
the rebalances from which forecasts start, and writes their lines to a file. `sweep_work` does the work of one chunk.
`totals` makes the result rows, the sums and the Pareto front. `front_tables` and `front_picture` show the Pareto front
as tables and as a picture.
"""
