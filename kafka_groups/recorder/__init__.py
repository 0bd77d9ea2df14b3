"""`assignor record`: the rebalances of Kafka Streams groups, as they happen, as `rebalance/1` lines.

==========================  =====================================================================================
`command`, `choices`        the command line; what it says about every group
`following`                 the loop: records of `__consumer_offsets` in, lines out
`generations`               which records are a new generation
`group_recorder`            one group: from a generation and looks at the cluster to a line
`shown_tasks`, `topologies`   what members show of their tasks; whose topology it is
`looks`                     what the cluster looked like just before and after
`leader_view`               what of that the leader can have seen: the one view under which its result follows
`offset_range`              the offsets between two looks that are worth trying
`rebalance_line`            the line itself
`output`, `position`        the file, and where to go on after a kill
`log_import`                what JVM assignors logged, as `placement/1` lines
==========================  =====================================================================================
"""
