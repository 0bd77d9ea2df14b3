"""Decodes and encodes the messages between the members and the leader of a Kafka Streams group.

`consumer_protocol` is the envelope. `subscription_info` and `assignment_info` are the user data in it. `versions` has
the first version of each field, `describe` converts any message to plain data, `group_metadata` reads the records of
`__consumer_offsets`. All of them use `primitives`. Bytes that cannot be decoded always raise `DecodeError`.
"""
