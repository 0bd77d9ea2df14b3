"""Bytes to values and back: the messages that the members and the leader of a Kafka Streams group exchange.

`consumer_protocol` is the envelope. `subscription_info` and `assignment_info` are the user data inside. `versions`
says what each version carries, `describe` shows any message as plain data,
`group_metadata` reads the records of `__consumer_offsets`. All are built from `primitives`.
Bytes that cannot be read always raise `DecodeError`.
"""
