"""`assignor sweep`: forecasts every combination of a grid from every episode of recorded groups. An episode is a
rebalance in which the instances of the group changed.

`sweep_run`: the job from inputs to results. `grid`: the combinations of config values. `episodes`: the recorded
rebalances from which forecasts start, and the file with their lines. `sweep_work`: the work on one chunk. `totals`: the
result row of a forecast, the sums and the Pareto front. `front_tables`, `front_picture`: the Pareto front as tables and
as a picture.
"""
