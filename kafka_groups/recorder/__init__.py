"""`assignor record`: follows Kafka Streams groups and writes each of their rebalances as a `rebalance/1` line.

| files | what they do |
|---|---|
| `record_command`, `choices` | the command line; its options and files for each group |
| `following` | the loop: records of `__consumer_offsets` in, lines out |
| `generations` | which records are a new generation |
| `group_recorder` | one group: from a generation and polls of the cluster to a line |
| `topologies` | where the topology comes from; the tasks that members reveal |
| `cluster_polls` | the cluster just before and just after a rebalance |
| `leader_view`, `offset_range` | the state of the cluster in between that explains the leader's result |
| `rebalance_line` | the line itself, and a summary of what the rebalance did |
| `output` | the file, and where to continue after a kill |
| `log_import`, `jvm_log` | the logs of JVM assignors, as `placement/1` lines |
"""
