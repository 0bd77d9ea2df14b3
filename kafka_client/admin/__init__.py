"""Reads and changes a Kafka cluster. Callers use the methods of `ClusterAdmin`. Each function in the other files makes
one try of a request. `ClusterAdmin` repeats a failed try.

`topics`: brokers, topics and their configs. `partition_leaders`: offsets of logs, and the deletion of records.
`groups`: committed offsets and members.
"""
