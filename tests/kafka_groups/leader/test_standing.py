"""Which groups can be led from outside, and what is said of those that cannot."""

from __future__ import annotations

import pytest

from kafka_groups.leader.standing import Standing, group_standing

INSTANCE = "app-assignor-leader"


@pytest.mark.parametrize(
    ("group_type", "protocol_type", "protocol", "instance_ids", "standing", "words"),
    [
        (None, "", "", [], Standing.FREE, ""),
        ("classic", "consumer", "", [], Standing.FREE, ""),
        ("classic", "connect", "", [], Standing.FREE, ""),
        ("classic", "consumer", "stream", [None, INSTANCE], Standing.OURS, ""),
        ("classic", "consumer", "stream", [None, "app-1"], Standing.LED, "2 members and a leader that is not"),
        (None, "consumer", "", [None], Standing.LED, "1 member and a leader that is not"),
        ("classic", "consumer", "range", [None], Standing.FOREIGN, "speak protocol 'range' of type 'consumer'"),
        ("classic", "connect", "v2", [INSTANCE], Standing.FOREIGN, "is no group of Kafka Streams"),
        ("streams", "", "", [], Standing.FOREIGN, "group.protocol=streams (KIP-1071)"),
        ("consumer", "", "", [None], Standing.FOREIGN, "is of type 'consumer', not 'classic'"),
    ],
)
def test_should_tell_groups_that_can_be_led_from_others(
    group_type: str | None,
    protocol_type: str,
    protocol: str,
    instance_ids: list[str | None],
    standing: Standing,
    words: str,
) -> None:
    found = group_standing(
        "app",
        INSTANCE,
        group_type=group_type,
        protocol_type=protocol_type,
        protocol=protocol,
        instance_ids=instance_ids,
    )
    assert found.standing is standing
    assert words in found.words
    assert bool(found.words) == (standing in (Standing.LED, Standing.FOREIGN))
