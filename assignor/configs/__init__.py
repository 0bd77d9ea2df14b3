"""The configs of an assignment: Kafka's configs, and this project's pins and weights of single tasks.

Source: `StreamsConfig`, `AssignmentConfigs` (KIP-924).
"""

from assignor.configs.assignment_configs import (
    INTEGER_BOUNDS,
    KNOWN_KEYS,
    NUM_STANDBY_REPLICAS,
    RACK_AWARE_ASSIGNMENT_STRATEGY,
    RACK_AWARE_ASSIGNMENT_TAGS,
    RACK_AWARE_ASSIGNMENT_TRAFFIC_COST,
    RACK_AWARE_STRATEGIES,
    TOPIC_PREFIX,
    WINDOW_STORE_ADDITIONAL_RETENTION_MS,
    AssignmentConfigs,
    dotted_configs,
    whole_number,
)

__all__ = [
    "INTEGER_BOUNDS",
    "KNOWN_KEYS",
    "NUM_STANDBY_REPLICAS",
    "RACK_AWARE_ASSIGNMENT_STRATEGY",
    "RACK_AWARE_ASSIGNMENT_TAGS",
    "RACK_AWARE_ASSIGNMENT_TRAFFIC_COST",
    "RACK_AWARE_STRATEGIES",
    "TOPIC_PREFIX",
    "WINDOW_STORE_ADDITIONAL_RETENTION_MS",
    "AssignmentConfigs",
    "dotted_configs",
    "whole_number",
]
