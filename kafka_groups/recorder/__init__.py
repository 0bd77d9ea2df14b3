"""`assignor record`: follows Kafka Streams groups and writes each of their rebalances as a `rebalance/1` line.

- `record_command`: has the command line of `assignor record`, and can also convert the log files of JVM members.
- `choices`: has the options and files of each group, and the source of the group's topology.
- `following`: runs the main loop of the recorder, which reads records of `__consumer_offsets` and writes lines.
- `generations`: decides which records show a new generation.
- `group_recorder`: polls the cluster before and after each rebalance of a group, and makes the line.
- `leader_view`: infers the state of the cluster that the leader read between two polls.
- `rebalance_line`: makes the line of a rebalance, and a summary of its moves and its cause.
- `output`: writes the output file, and the position from which the next run continues after a kill.
- `jvm_log`, `jvm_log_rebalances`: read the rebalances from the log file of a JVM leader.
"""
