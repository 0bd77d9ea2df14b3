"""Formats decisions, moves, states and forecasts as rows and sentences. All texts about rebalances that users see are
made in this package. The functions of this package only convert values to texts. The functions read no input and no
clock, and do not depend on a terminal. Commands print the rows. Web pages show the rows. JSON documents contain the
texts in addition to the data. `quantities`: times, durations, counts and lags. `reasons`: the reasons for the placement
of a task. `moves`: the copies of a task and their changes. `rebalances`: the triggers of a rebalance. `history_rows`:
histories as rows of text. `history_documents`: histories as JSON. `comparisons`: the results of what-if and diff.
`forecasts`: forecasts and their outcomes.
"""
