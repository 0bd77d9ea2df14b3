"""Modules that all packages of the runtime share, as Kafka's package of this name: errors, clock, states, records."""
