"""`assignor lead`: this process joins the group of a real Kafka Streams application first, and leads its rebalances.

| files | what they do |
|---|---|
| `lead_command` | the command line |
| `lead_settings` | the settings of the leader, and its session time-outs (no I/O) |
| `leading` | one run from start to stop, and the definition of the group |
| `election` | elects one of several `assignor lead` processes |
| `group_entry` | checks that the group can be led now (no I/O); joins it as its leader |
| `leader` | the leader's loop: rebalances, heartbeats, and the reasons for the next rebalance |
| `led_rebalance` | computes one rebalance from the members' subscriptions to the assignments (no I/O) |
| `rebalance_decider` | the I/O of a rebalance: reads the cluster, creates topics and retries |
| `source_topics` | changes of partitions and subscriptions since the last rebalance (no I/O) |
| `rebalance_records` | writes and reports led rebalances; the progress line |
"""
