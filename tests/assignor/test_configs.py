"""Configs under Kafka's names: what they take, and that everything else is refused with the key and the place."""

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


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num.standby.replicas", -(2**31) - 1, "must be from -2147483648 to 2147483647, not -2147483649"),
        ("max.warmup.replicas", 0, "must be from 1"),
        ("probing.rebalance.interval.ms", "59999", "must be from 60000"),
        ("replication.factor", 2**31, "must be from -2147483648 to 2147483647"),
        ("num.standby.replicas", "--5", "must be a whole number, not '--5'"),
        ("num.standby.replicas", "9" * 5000, "must be a whole number"),
        pytest.param("num.standby.replicas", 10**5000, "not a number of 16610 bits", id="beyond-all-measure"),
        ("num.standby.replicas", True, "must be a whole number, not True"),
        ("num.standby.replicas", None, "must be a whole number, not None"),
        ("num.standby.replicas", 1.0, "must be a whole number, not 1.0"),
        ("rack.aware.assignment.tags", ["zone", ""], "has an empty tag name"),
        ("rack.aware.assignment.tags", "zone,,cluster", "has an empty tag name"),
        ("rack.aware.assignment.tags", ["zone"] * 6, "takes at most 5 tags"),
        ("rack.aware.assignment.tags", "z" * 21, f"takes tag keys of at most 20 characters, not {'z' * 21!r}"),
        ("rack.aware.assignment.tags", [1], "must be a list of tag names"),
        ("rack.aware.assignment.strategy", "nearest", "must be one of none"),
        ("topic.retention.ms", None, "must be text or a number"),
        ("num.standby.replica", 1, "did you mean 'num.standby.replicas'"),
    ],
)
def test_should_refuse_with_the_place_and_the_reason(key: str, value: object, message: str) -> None:
    with pytest.raises(InputError) as refused:
        AssignmentConfigs.from_dotted({key: value}, "input.configs")
    assert str(refused.value).startswith("input.configs: ")
    assert message in str(refused.value)
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
