"""`assignor sweep`: every combination of a grid, forecast from every episode of recorded groups.

`sweep_run` is the job from inputs to results. `grid`: the combinations. `episodes`, `spooled_lines`: where forecasts
start. `sweep_work`, `episode_totals`: one chunk and one row. `totals`: sums and the Pareto front. `front_tables`,
`front_picture`, `label_places`: what is shown.
"""
