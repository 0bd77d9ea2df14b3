"""Decisions, moves, states and forecasts as rows and sentences: the one place that words them.

Values come in, texts go out; nothing here reads, asks a clock or knows a terminal. Commands lay the rows out for a
terminal, pages fill their templates with them, and documents carry them beside the data. `quantities`: times,
durations, counts and lags. `reasons`: why a task is where it is. `moves`: copies of a task and what changed about them.
`rebalances`: what set a rebalance off. `history_rows`: histories. `comparisons`: what-if and diff.
`forecasts`: how a forecast ends.
"""
