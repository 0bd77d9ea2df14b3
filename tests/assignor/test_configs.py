"""Configs under Kafka's names: what they take, and that everything else is refused with the key and the place."""

import json
import re
from pathlib import Path

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.recording import dotted_configs
from tests.assignor.kafka_config_values import KEYS, VALUES, in_kafka


def test_should_have_kafkas_defaults() -> None:
    assert AssignmentConfigs.from_dotted({}) == AssignmentConfigs(
        num_standby_replicas=0,
        acceptable_recovery_lag=10_000,
        max_warmup_replicas=2,
        probing_rebalance_interval_ms=600_000,
        rack_aware_assignment_tags=(),
        replication_factor=-1,
        window_store_additional_retention_ms=86_400_000,
        topic_configs={},
    )


REFUSED = json.loads((Path(__file__).parent / "refused_configs.json").read_text())
"""Key, value, and a part of the message."""
TOO_LARGE = [
    ("num.standby.replicas", "9" * 5000, "must be a whole number"),
    ("num.standby.replicas", 10**5000, "not a number of 16610 bits"),
    ("minimal.movement.task.weights", {"0_3": 10**5000}, "not a number of 16610 bits"),
    ("minimal.movement.pins", "[" * 100_000, "is nested too deeply"),
]


@pytest.mark.parametrize(("key", "value", "message"), REFUSED + TOO_LARGE, ids=range(len(REFUSED + TOO_LARGE)))
def test_should_refuse_with_the_place_and_the_reason(key: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=rf"^input\.configs.*{re.escape(message)}") as refused:
        AssignmentConfigs.from_dotted({key: value}, "input.configs")
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("key", KEYS)
def test_should_read_and_refuse_what_kafka_does(key: str) -> None:
    different = [
        (value, wanted)
        for value, wanted in zip(VALUES, in_kafka()[key], strict=True)
        if _read(key, value) != (wanted if wanted[0] == "read" else ["refused"])
    ]

    assert different == []


def _read(key: str, value: object) -> list[object]:
    try:
        return ["read", dotted_configs(AssignmentConfigs.from_dotted({key: value}))[key]]
    except InputError:
        return ["refused"]
