"""`assignor lead`: this process joins the group of a real Kafka Streams application first, and leads its rebalances.

- `lead_command`: has the command line of `assignor lead`.
- `lead_settings`: has the settings of the leader and its session time-outs. Does no I/O.
- `leading`: runs the leader from its start to its stop. Makes the definition of the group.
- `election`: elects one of several `assignor lead` processes.
- `group_entry`: checks that this process can lead the group now, and joins the group as its leader.
- `leader`: runs the main loop of the leader: rebalances, heartbeats, and the reasons for the next rebalance.
- `led_rebalance`: computes the assignments of one rebalance from the members' subscriptions. Does no I/O.
- `rebalance_decider`: does the I/O of a rebalance. Reads the cluster, creates topics and retries.
- `source_topics`: finds changes of partitions and subscriptions since the last rebalance. Does no I/O.
- `rebalance_records`: writes the rebalances of this leader to a file, and reports them to a coordinator. Makes the
  progress lines.
"""
