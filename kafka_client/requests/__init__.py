"""Requests of Kafka's protocol in versions that aiokafka does not have: for admin calls and for group membership."""
