"""Reads and changes a cluster. Call `ClusterAdmin`; the functions of the other files make one try each, and
`ClusterAdmin` retries them.

`topics`: brokers, topics and their configs. `partition_leaders`: offsets of logs, and deleting records. `groups`:
committed offsets and members.
"""
