"""`assignor lead`: this process joins the group of a real Kafka Streams application first, and leads its rebalances.

| files | what they do |
|---|---|
| `lead_command` | the command line |
| `lead_settings` | how the leader behaves, and how long its sessions last (pure) |
| `leading`, `election` | one run from start to stop, with the group's definition; which of several leaders leads |
| `group_entry` | whether the group can be led now (pure); joining it as its leader |
| `leader` | the leader's loop: rebalances, heartbeats, and what starts the next rebalance |
| `led_rebalance` | one rebalance as values: the members' bytes in and out, the leader's own among them (pure) |
| `rebalance_decider` | the effects of a rebalance: it reads the cluster, creates topics and tries again |
| `source_topics` | changes since the last rebalance: partitions, subscriptions (pure) |
| `rebalance_records` | where led rebalances are kept and reported; the line of progress |
"""
