"""`assignor sweep`: every combination of a grid, forecast from every episode of recorded groups.

`running` is the job from inputs to results. `grid`: the combinations. `episodes`, `spool`: where forecasts start.
`work`, `rows`: one chunk and one row. `totals`: sums and the Pareto front. `alike`, `tables`, `picture`, `labels`:
what is shown.
"""
