"""Rebalances of real Kafka Streams groups for `assignor demo`, recorded from the wire (rebalance/1, gzip)."""
