"""The command `assignor demo`. `scenario`: the steps of the demo.

`word_count`: the word-count application and its input text. `takeovers`: the effects of the executor's death, computed
from the members' ownership logs. `replayed_groups`: the comparison with recorded rebalances of Kafka. `tables`: the
tables that the demo prints.
"""
