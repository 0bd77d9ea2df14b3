"""The task assignor that a Kafka broker uses for its streams groups (KIP-1071), to compare it with the other task
assignors.
"""
