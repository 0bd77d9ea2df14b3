"""`assignor sweep`: every combination of a grid, forecast from every episode of recorded groups.

`sweep_run` is the job from inputs to results. `grid`: the combinations. `episodes`: where forecasts start, and the file
that carries their lines. `sweep_work`: one chunk. `totals`: one row, the sums and the Pareto front. `front_tables`,
`front_picture`: what is shown.
"""
