"""Decisions, moves, states and forecasts as rows and sentences. All texts for users about them are made here.

The functions turn values into texts; they read no input and no clock, and do not depend on a terminal. Commands format
the rows for a terminal, pages fill their templates with them, and documents carry them beside the data. `quantities`:
times, durations, counts and lags. `reasons`: the reasons for the place of a task. `moves`: the copies of a task and
their changes. `rebalances`: the triggers of a rebalance. `history_rows`: histories for people.
`history_documents`: histories as JSON. `comparisons`: what-if and diff. `forecasts`: forecasts and their ends.
"""
