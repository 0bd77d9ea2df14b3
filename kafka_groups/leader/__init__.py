"""`assignor lead`: this process joins the group of a real Kafka Streams application first, and leads its rebalances.

==========================================  ========================================================================
`command`, `definition`, `store_options`,   the command line; the application's topology and configs
`lead_settings`
`leading`, `election`                       one run: connections, which of several leaders leads, the way out
`standing`, `group_entry`                   whether the group can be led now (pure); joining it first
`leader`                                    the loop of a leader: rounds, heartbeats, what begins a round
`led_round`, `own_member`, `record_size`    one round as values: the others' bytes in, everybody's out; what the leader
                                            itself is in the group; whether the brokers can keep the round (all pure)
`round_work`                                the effects of a round: look at the cluster, create topics, try again
`source_partitions`, `subscribed_topics`    what changed since the last round: partitions; what the members read (pure)
`round_records`, `round_text`               where rounds are kept and reported; the line of progress
==========================================  ========================================================================
"""
