"""`assignor demo`. `scenario`: the run from start to end.

`word_count`: the application and its text. `takeovers`: the effects of the kill, computed from the members' ownership
logs. `replayed_groups`: Kafka's recorded groups, run again. `tables`: the printed tables.
"""
