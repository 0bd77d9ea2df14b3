"""Bytes to values and back: the messages that members and leader of a Kafka Streams group exchange.

`consumer_protocol` is the envelope, `subscription_info` and `assignment_info` (written by `assignment_info_encoder`)
are the user data inside, `versions` says which version a group speaks, `describe` shows any of them as plain data.
`primitives` and `java_text` are what they are made of. Bytes that cannot be read are always a `DecodeError`.
"""
