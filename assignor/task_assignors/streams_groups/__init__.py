"""The task assignor that a Kafka broker uses for its streams groups (KIP-1071). The broker's placement can be compared
with the other task assignors.
"""
