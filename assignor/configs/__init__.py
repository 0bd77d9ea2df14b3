"""The configs of an assignment: Kafka's configs, and this project's pins and weights of single tasks.

Source: `StreamsConfig`, `AssignmentConfigs` (KIP-924).
"""

from assignor.configs.assignment_configs import INTEGER_BOUNDS as INTEGER_BOUNDS
from assignor.configs.assignment_configs import KAFKA_VERSION as KAFKA_VERSION
from assignor.configs.assignment_configs import KNOWN_KEYS as KNOWN_KEYS
from assignor.configs.assignment_configs import NUM_STANDBY_REPLICAS as NUM_STANDBY_REPLICAS
from assignor.configs.assignment_configs import RACK_AWARE_ASSIGNMENT_STRATEGY as RACK_AWARE_ASSIGNMENT_STRATEGY
from assignor.configs.assignment_configs import RACK_AWARE_ASSIGNMENT_TAGS as RACK_AWARE_ASSIGNMENT_TAGS
from assignor.configs.assignment_configs import RACK_AWARE_ASSIGNMENT_TRAFFIC_COST as RACK_AWARE_ASSIGNMENT_TRAFFIC_COST
from assignor.configs.assignment_configs import RACK_AWARE_STRATEGIES as RACK_AWARE_STRATEGIES
from assignor.configs.assignment_configs import TOPIC_PREFIX as TOPIC_PREFIX
from assignor.configs.assignment_configs import (
    WINDOW_STORE_ADDITIONAL_RETENTION_MS as WINDOW_STORE_ADDITIONAL_RETENTION_MS,
)
from assignor.configs.assignment_configs import AssignmentConfigs as AssignmentConfigs
from assignor.configs.assignment_configs import dotted_configs as dotted_configs
from assignor.configs.assignment_configs import whole_number as whole_number
