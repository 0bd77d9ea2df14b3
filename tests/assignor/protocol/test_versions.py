"""Which version a group speaks, and when a round is for version probing."""

import re

import pytest

from assignor.clients.client_metadata import ReceivedVersions, received_versions
from assignor.errors import TaskAssignmentError
from assignor.protocol.versions import next_subscription_version


@pytest.mark.parametrize(
    "versions, expected",
    [
        ([], ReceivedVersions(11, 11, None)),
        ([(11, 11), (11, 11)], ReceivedVersions(11, 11, None)),
        ([(9, 11), (10, 10)], ReceivedVersions(9, 10, None)),
        ([(11, 11), (1, -1)], ReceivedVersions(1, -1, None)),
        ([(12, 13), (11, 11)], ReceivedVersions(11, 11, 12)),
        ([(14, 14), (12, 13)], ReceivedVersions(11, 11, 12)),
        ([(12, 12), (4, 8)], ReceivedVersions(4, 8, 12)),
    ],
)
def test_should_take_the_lowest_of_what_members_sent(
    versions: list[tuple[int, int]], expected: ReceivedVersions
) -> None:
    assert received_versions(versions) == expected


@pytest.mark.parametrize(
    "versions, probing",
    [
        (ReceivedVersions(1, -1, None), False),
        (ReceivedVersions(11, 11, None), False),
        (ReceivedVersions(3, 3, 12), True),
        (ReceivedVersions(11, 11, 12), True),
    ],
)
def test_should_probe_only_when_there_is_a_future_member(versions: ReceivedVersions, probing: bool) -> None:
    assert versions.is_version_probing() is probing


def test_should_refuse_a_future_member_beside_one_that_cannot_probe() -> None:
    with pytest.raises(TaskAssignmentError) as raised:
        ReceivedVersions(2, -1, 12).is_version_probing()

    assert raised.value.as_recorded() == (
        "TaskAssignmentException: Received a future (version probing) subscription (version: 12) and an incompatible "
        "pre Kafka 2.0 subscription (version: 2) at the same time."
    )


@pytest.mark.parametrize(
    "used, received, commonly_supported, following",
    [
        (11, 11, 11, 11),
        (9, 9, 11, 11),  # the rolling upgrade is over
        (11, 9, 9, 9),  # somebody has not been upgraded
        (11, 9, 10, 10),
        (9, 9, 9, 9),
        (2, 2, -1, 2),
        (11, 1, -1, 11),  # a leader too old to probe
    ],
)
def test_should_follow_the_version_the_leader_names(
    used: int, received: int, commonly_supported: int, following: int
) -> None:
    assert next_subscription_version(used, received, commonly_supported) == following


@pytest.mark.parametrize(
    "used, received, commonly_supported, message",
    [
        (9, 10, 11, "Sent a version 9 subscription but got an assignment with higher version 10."),
        (11, 11, 12, "Can't upgrade to metadata version greater than we support"),
    ],
)
def test_should_refuse_versions_that_the_leader_must_not_send(
    used: int, received: int, commonly_supported: int, message: str
) -> None:
    with pytest.raises(TaskAssignmentError, match=f"^{re.escape(message)}$"):
        next_subscription_version(used, received, commonly_supported)
