"""Reads and changes a Kafka cluster. Call `ClusterAdmin`: each function of the other files makes one try, and
`ClusterAdmin` retries it.

`topics`: brokers, topics and their configs. `partition_leaders`: offsets of logs, and deleting records. `groups`:
committed offsets and members.
"""
