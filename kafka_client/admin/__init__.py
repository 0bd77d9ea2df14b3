"""Questions to a cluster and changes to it: call `ClusterAdmin`, which repeats the tries of the other files.

`topics`: brokers, topics and their configs. `partition_leaders`: offsets and deleted records. `groups`: committed
offsets and members.
"""
