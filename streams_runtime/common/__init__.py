"""Shared by all rooms, as in Kafka's package of this name: errors, the clock, states, and records."""
