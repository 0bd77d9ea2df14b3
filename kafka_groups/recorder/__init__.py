"""`assignor record`: follows Kafka Streams groups and writes each of their rebalances as a `rebalance/1` line.

| files | what they do |
|---|---|
| `record_command` | the command line; it also writes the logs of JVM assignors as `placement/1` lines |
| `choices` | the options and files of each group, and the source of the group's topology |
| `following` | the loop: reads records of `__consumer_offsets` and writes lines |
| `generations` | decides which records are a new generation |
| `group_recorder` | one group: polls the cluster before and after each rebalance, and makes the line |
| `leader_view` | finds a state of the cluster, between two polls, from which the leader's result follows |
| `rebalance_line` | makes the line, and a summary of the rebalance's moves and cause |
| `output` | the output file, and the position from which a run continues after it was killed |
| `jvm_log`, `jvm_log_rebalances` | read the rebalances in the log of a JVM leader |
"""
