"""Formats decisions, moves, states and forecasts as rows and sentences. Only this package makes texts for users about
rebalances. The functions of the package turn values into texts, read no input and no clock, and do not depend on a
terminal. Commands print the rows on a terminal, web pages show the rows in templates, and JSON documents contain the
texts beside the data. `quantities`: times, durations, counts and lags. `reasons`: the reasons for the place of a task.
`moves`: the copies of a task and their changes. `rebalances`: the triggers of a rebalance. `history_rows`: histories as
rows of text. `history_documents`: histories as JSON. `comparisons`: what-if and diff. `forecasts`: forecasts and their
outcomes.
"""
