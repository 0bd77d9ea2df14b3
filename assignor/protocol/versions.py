"""The versions of SubscriptionInfo and AssignmentInfo in a group, and their change during a rolling upgrade.

The leader encodes all assignments in the lowest version that it received. If all other members have version 3 or later,
a member with a version unknown to the leader can still join. The join of a member with an unknown version is called
version probing. The joining member gets an empty assignment with the version that all members support, lowers its own
version and rejoins. `received_versions` in `clients/client_metadata.py` computes the versions of a group.
Source: `StreamsAssignmentProtocolVersions`, `StreamsPartitionAssignor.checkMetadataVersions`,
`validateMetadataVersions`, `maybeUpdateSubscriptionVersion`;
KIP-268.
"""

from assignor.errors import TaskAssignmentError

LATEST_SUPPORTED_VERSION = 11

EARLIEST_PROBEABLE_VERSION = 3
"""The first version whose assignments contain the version that all members support."""

UNKNOWN_VERSION = -1
"""Stands for the latest supported version of a member of version 1 or 2. Members of version 1 or 2 do not send their
latest supported version.
"""

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
    """Returns the version of a member's next subscription. If the returned version differs from `used`, the member has
    to rejoin immediately.

    `used`: the version of the subscription that the member sent. `received`, `commonly_supported`: the two versions of
    the assignment. Raises TaskAssignmentError if the assignment has a higher version than the subscription, or a
    commonly supported version above LATEST_SUPPORTED_VERSION.
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
