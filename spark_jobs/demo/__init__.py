"""`assignor demo`. `scenario` is the run from start to end.

`word_count` and `stdlib_text`: the application and its text. `progress`: how far it is. `takeovers`,
`witnessed_rebalances`: what happened, from the members' ownership logs. `replayed_groups`: Kafka's recorded groups,
run again. `tables`: what is printed.
"""
