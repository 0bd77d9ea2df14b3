"""Our whole pipeline beside Kafka's own leader in a JVM, in one run, over assignors, shapes and rebalances.

`cells.py` says what is compared, `Leader.java` and `leader.py` are the two programs that run one group as often as they
are told, `contenders.py` talks to them, `measuring.py` measures one cell, `codec.py` the codecs, `tables.py` prints.
"""
