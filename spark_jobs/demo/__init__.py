"""`assignor demo`. `scenario` is the run from start to end.

`word_count`: the application and its text. `takeovers`: what happened, from the members' ownership logs.
`replayed_groups`: Kafka's recorded groups, run again. `tables`: what is printed.
"""
