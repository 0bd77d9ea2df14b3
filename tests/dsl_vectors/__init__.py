"""Cases that Kafka Streams' own TopologyTestDriver has answered, run with this project's DSL and TopologyTestDriver.

`python -m tests.dsl_vectors FILE...` builds each topology (`dsl_operators`, `processor_api_operators`, with the user
code in `functions` and `processors`), runs it (`running`) and compares both answers (`comparing`, `errors`). A case
that differs is run again as Kafka would do it, for each difference in the closed list of `documented`.
"""
