"""The command `assignor demo`. `scenario`: the demo run from start to end.

`word_count`: the word-count application and its input text. `takeovers`: the effects of the executor's death, computed
from the members' ownership logs. `replayed_groups`: Kafka's recorded groups, run again. `tables`: the tables that the
demo prints.
"""
