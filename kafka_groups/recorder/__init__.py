"""`assignor record`: follows Kafka Streams groups and writes each of their rebalances as a `rebalance/1` line.

| files | what they do |
|---|---|
| `record_command` | The command line of `assignor record`. It can also convert the logs of JVM members. |
| `choices` | The options and files of each group, and the source of the group's topology. |
| `following` | The loop of the recorder: reads records of `__consumer_offsets` and writes lines. |
| `generations` | Decides which records show a new generation. |
| `group_recorder` | Polls the cluster before and after each rebalance of a group, and makes the line. |
| `leader_view` | Finds a state of the cluster, between two polls, that explains the leader's result. |
| `rebalance_line` | Makes the line of a rebalance, and a summary of its moves and its cause. |
| `output` | Writes the output file, and the position from which the next run continues after a kill. |
| `jvm_log`, `jvm_log_rebalances` | Read the rebalances from the log file of a JVM leader. |
"""
