"""Questions to a cluster and changes to it. `cluster_admin` is the entrance; the other files each make one kind of try.

`cluster_metadata`: brokers and topics. `partition_leaders`: offsets and deleted records. `topic_creation`: topics and
their configs. `groups`: committed offsets and members.
"""
