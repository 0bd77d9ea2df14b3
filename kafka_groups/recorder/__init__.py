"""`assignor record`: follows Kafka Streams groups and writes each of their rebalances as a `rebalance/1` line.

| files | what they do |
|---|---|
| `record_command` | the command line; it also writes the logs of JVM assignors as `placement/1` lines |
| `choices` | its options and files for each group; where the topology comes from, and the tasks that members reveal |
| `following` | the loop: records of `__consumer_offsets` in, lines out |
| `generations` | which records are a new generation |
| `group_recorder` | one group: polls of the cluster just before and just after a rebalance; from both to a line |
| `leader_view` | the state of the cluster in between that explains the leader's result |
| `rebalance_line` | the line itself, and a summary of what the rebalance did |
| `output` | the file, and where to continue after a kill |
| `jvm_log`, `jvm_log_rebalances` | the rebalances in the log of a JVM leader |
"""
