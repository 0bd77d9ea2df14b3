"""Reads and changes a Kafka cluster. Callers use the methods of `ClusterAdmin`. The functions of the other files make
one try each, and `ClusterAdmin` repeats a failed try.

`topics`: brokers, topics and their configs. `partition_leaders`: offsets of logs, and the deletion of records.
`groups`: committed offsets and members.
"""
