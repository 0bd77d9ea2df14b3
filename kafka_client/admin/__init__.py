"""Reads and changes a Kafka cluster. Callers use the methods of `ClusterAdmin`. Each function of the other files tries
a request once. `ClusterAdmin` repeats a failed try.

`topics`: brokers, topics and their configs. `partition_leaders`: offsets of logs, and the deletion of records.
`groups`: committed offsets and members.
"""
