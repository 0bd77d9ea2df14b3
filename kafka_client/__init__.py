"""What talks to Kafka: the one place, beside the log (`logs/kafka`), that knows the client library.

=============================================  =====================================================================
`client_settings`, `properties_file`,          a client's properties by Kafka's own names; TLS and SASL out of them
`tls`, `sasl`
`connections`, `calls`, `broker_answers`,      connections to the brokers of a cluster; one call with its repetitions;
`errors`, `wire_requests`                      which answers are worth asking again; requests that aiokafka has not
`cluster_admin` with `cluster_metadata`,       questions to a cluster, and topics made
`partition_leaders`, `groups`,
`topic_creation`
`cluster_view`, `cluster_provider`             a cluster as the leader of a rebalance sees it; for the coordinator, too
`offsets_topic`                                `__consumer_offsets`, read as it is written
`group_membership` with `group_requests`,      one member of a classic group, on raw bytes
`membership_errors`
`first_contact`                                a wrong address is noticed, and can be broken off
`event_loop`                                   a synchronous face for callers that are threads
=============================================  =====================================================================
"""
