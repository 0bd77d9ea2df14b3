"""The Kafka client: the one place, with `streams_runtime/logs/kafka`, that knows the client library aiokafka.

| room | what it does |
|---|---|
| `cluster_provider`, `cluster_view` | a cluster as the leader of a rebalance sees it, for the coordinator too |
| `admin/` | questions to a cluster, topics to create, groups to describe |
| `group_membership` | one member of a classic group, on raw bytes |
| `offsets_topic` | `__consumer_offsets`, read as the brokers write it |
| `calls`, `connections` | one call with its tries; connections to the brokers |
| `error_codes`, `errors` | what brokers answer instead of a result, and what a caller catches |
| `record_batches/` | Kafka's record batches of version 2, as bytes and as columns |
| `requests/` | requests in versions that aiokafka does not have |
| `settings/` | a client's properties under Kafka's own names, TLS and SASL included |
| `event_loop` | a synchronous face for callers that are threads |
"""
