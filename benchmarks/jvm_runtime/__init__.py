"""Our stream threads beside Kafka Streams on the JVM: the same topologies on the same records, in one run.

`cells.py` says what is compared. `topologies.py` and `Instance.java` have the applications, and `input_records.py` what
they read. `ours.py`, `Instance.java` and `quix.py` are the programs that run an instance as often as they are told;
`programs.py` talks to them. `contenders.py` gives each of them its log, `measuring.py` measures one cell, and
`outputs.py` compares what they wrote. `spark_row.py` has `spark_driver.py` count on Spark. `tables.py` and `goals.py`
print.
"""
