"""Formats decisions, moves, states and forecasts as rows and sentences. Texts about rebalances for users are made only
in this package. The functions of this package only convert values to texts. These functions read neither input nor a
clock, and do not depend on a terminal. Commands print the rows, web pages show the rows in templates, and JSON
documents contain the texts in addition to the data. `quantities`: times, durations, counts and lags. `reasons`: the
reasons for the placement of a task. `moves`: the copies of a task and their changes. `rebalances`: the triggers of a
rebalance. `history_rows`: histories as rows of text. `history_documents`: histories as JSON. `comparisons`: what-if and
diff. `forecasts`: forecasts and their outcomes.
"""
