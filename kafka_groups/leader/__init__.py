"""`assignor lead`: this process joins the group of a real Kafka Streams application first, and leads its rebalances.

| files | what they do |
|---|---|
| `lead_command` | The command line of `assignor lead`. |
| `lead_settings` | The settings of the leader and its session time-outs. Does no I/O. |
| `leading` | Runs the leader from its start to its stop. Makes the definition of the group. |
| `election` | Elects one of several `assignor lead` processes. |
| `group_entry` | Checks that this process can lead the group now, and joins the group as its leader. |
| `leader` | The loop of the leader: rebalances, heartbeats, and the reasons for the next rebalance. |
| `led_rebalance` | Computes the assignments of one rebalance from the members' subscriptions. Does no I/O. |
| `rebalance_decider` | Does the I/O of a rebalance: reads the cluster, creates topics and retries. |
| `source_topics` | Finds changes of partitions and subscriptions since the last rebalance. Does no I/O. |
| `rebalance_records` | Writes and reports the led rebalances. Makes the progress lines. |
"""
