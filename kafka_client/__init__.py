"""The Kafka client. Only this package and `streams_runtime/logs/kafka` import the client library aiokafka.

- `cluster_provider`: reads the state of a cluster that a rebalance needs. The coordinator also uses this module.
- `admin/`: reads and changes topics, configs, offsets and groups of a cluster.
- `group_membership`: joins a classic group as one member, and exchanges raw bytes with the group.
- `offsets_topic`: parses the records of `__consumer_offsets`.
- `connections`: connects to the brokers, and repeats a failed request.
- `error_codes`, `errors`: the error codes of the brokers, and the exceptions that callers catch.
- `record_batches/`: converts Kafka's record batches of version 2 between bytes and columns.
- `requests`: the requests in versions that aiokafka does not have.
- `settings/`: reads a client's properties under Kafka's own names, including TLS and SASL.
- `event_loop`: runs coroutines for callers that are threads.
"""
