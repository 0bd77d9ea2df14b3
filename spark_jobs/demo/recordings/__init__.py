"""Rebalances of real Kafka Streams groups, as they went over the wire, for `assignor demo` (rebalance/1, gzip)."""
