"""Which version of SubscriptionInfo and AssignmentInfo a group speaks, and how a rolling upgrade raises it.

The leader answers all members in the lowest version that it received. A member of a version that the leader does not
know can still join when all others can probe (version 3 and up): it gets an empty assignment with the version that all
support, lowers its own version and rejoins. `clients/client_metadata.py` folds the versions that a group has sent
(`received_versions`). Source: `StreamsAssignmentProtocolVersions`,
`StreamsPartitionAssignor.checkMetadataVersions`, `validateMetadataVersions`, `maybeUpdateSubscriptionVersion`;
KIP-268.
"""

from __future__ import annotations

from assignor.errors import TaskAssignmentError

LATEST_SUPPORTED_VERSION = 11

EARLIEST_PROBEABLE_VERSION = 3
"""From this version on an assignment carries the version that all members support."""

UNKNOWN_VERSION = -1
"""The latest supported version of members of versions 1 and 2, which do not send it."""

FIRST_VERSION_WITH_ENDPOINT = 2
FIRST_VERSION_WITH_LATEST_SUPPORTED = 3
FIRST_VERSION_WITH_ASSIGNMENT_ERROR = 4
FIRST_VERSION_WITH_TOPIC_DICTIONARY = 5
FIRST_VERSION_WITH_STANDBY_HOSTS = 6
FIRST_VERSION_WITH_OFFSET_SUMS = 7
FIRST_VERSION_WITH_NEXT_REBALANCE = 7
FIRST_VERSION_WITH_UNIQUE_FIELD = 8
FIRST_VERSION_WITH_SUBSCRIPTION_ERROR = 9
FIRST_VERSION_WITH_NAMED_TOPOLOGY = 10
FIRST_VERSION_WITH_CLIENT_TAGS = 11


def next_subscription_version(used: int, received: int, commonly_supported: int) -> int:
    """For the member: the version of its next subscription. When it differs from `used`, the member has to rejoin at
    once.

    `used`: version of the subscription that was sent; `received` and `commonly_supported`: from the assignment. Raises
    TaskAssignmentError when the leader answered in a higher version than it was sent, or in one that is not known
    here.
    """
    if received > used:
        raise TaskAssignmentError(
            f"Sent a version {used} subscription but got an assignment with higher version {received}."
        )
    if commonly_supported > LATEST_SUPPORTED_VERSION:
        raise TaskAssignmentError("Can't upgrade to metadata version greater than we support")
    if received < EARLIEST_PROBEABLE_VERSION:
        return used
    if commonly_supported > used or received < used:
        return commonly_supported
    return used
