"""`assignor record`: follows Kafka Streams groups and writes each of their rebalances as a `rebalance/1` line.

| files | what they do |
|---|---|
| `command`, `choices` | the command line; what it says about each group |
| `following` | the loop: records of `__consumer_offsets` in, lines out |
| `generations` | which records are a new generation |
| `group_recorder` | one group: from a generation and looks at the cluster to a line |
| `shown_tasks`, `topologies` | what members reveal of their tasks; where the topology comes from |
| `looks` | the cluster just before and just after a rebalance |
| `leader_view`, `offset_range` | which state of the cluster in between the leader must have seen, given its result |
| `rebalance_line` | the line itself |
| `output`, `position` | the file, and where to continue after a kill |
| `log_import`, `jvm_log` | what JVM assignors logged, as `placement/1` lines |
"""
