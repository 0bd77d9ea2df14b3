"""The Kafka client. Only this package and `streams_runtime/logs/kafka` import the client library aiokafka.

| module | what it does |
|---|---|
| `cluster_provider` | reads the state of a cluster that a rebalance needs; the coordinator uses it too |
| `admin/` | reads and changes a cluster: topics, configs, offsets, groups |
| `group_membership` | one member of a classic group, on raw bytes |
| `offsets_topic` | parses the records of `__consumer_offsets` |
| `connections` | connections to the brokers; repeats a failed request |
| `error_codes`, `errors` | error codes of the brokers, and the exceptions that callers catch |
| `record_batches/` | Kafka's record batches of version 2, as bytes and as columns |
| `requests` | requests in versions that aiokafka does not have |
| `settings/` | a client's properties under Kafka's own names, TLS and SASL included |
| `event_loop` | runs coroutines for callers that are threads |
"""
