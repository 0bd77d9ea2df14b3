"""Decodes and encodes the messages between the members and the leader of a Kafka Streams group.

`consumer_protocol` encodes the messages of the consumer protocol, which contain the user data. `subscription_info` and
`assignment_info` encode the user data inside these messages. `versions` lists the version in which each field first
exists. `describe` converts any message to plain data. `group_metadata` reads the records of `__consumer_offsets`. All
modules of this package use `primitives`, and raise `DecodeError` for bytes that cannot be decoded.
"""
