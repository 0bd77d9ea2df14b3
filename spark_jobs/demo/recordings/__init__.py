"""Rebalances of real Kafka Streams groups for `assignor demo`, recorded from network traffic (rebalance/1, gzip)."""
