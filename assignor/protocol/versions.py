"""Which version of SubscriptionInfo and AssignmentInfo a group speaks, and how a rolling upgrade moves it.

The leader answers everybody in the lowest version it received. A member of a version the leader does not know is still
welcome when all others can be asked to probe (version 3 and up): it gets an empty assignment that names the version all
support, lowers its own and joins again. Source: `StreamsAssignmentProtocolVersions`,
`StreamsPartitionAssignor.checkMetadataVersions`, `validateMetadataVersions`, `maybeUpdateSubscriptionVersion`; KIP-268.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assignor.errors import TaskAssignmentError

LATEST_SUPPORTED_VERSION = 11

EARLIEST_PROBEABLE_VERSION = 3
"""From here on an assignment tells the version that all members support."""

UNKNOWN_VERSION = -1
"""What versions 1 and 2, which do not carry it, count as their latest supported version."""

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


@dataclass(frozen=True, slots=True)
class ReceivedVersions:
    """What the subscriptions of one round say about versions.

    `min_received`: lowest version a subscription is written in, LATEST_SUPPORTED_VERSION at most: the version of all
    assignments. `min_supported`: lowest of the latest versions that members support, UNKNOWN_VERSION when a member does
    not tell. `future`: a received version above LATEST_SUPPORTED_VERSION, of the last such member; None without one.
    """

    min_received: int = LATEST_SUPPORTED_VERSION
    min_supported: int = LATEST_SUPPORTED_VERSION
    future: int | None = None

    def is_version_probing(self) -> bool:
        """Whether the round must be followed by another with lower versions.

        TaskAssignmentError: a future member meets one so old that it cannot probe.
        """
        if self.future is None:
            return False
        if self.min_received >= EARLIEST_PROBEABLE_VERSION:
            return True
        raise TaskAssignmentError(
            f"Received a future (version probing) subscription (version: {self.future}) and an incompatible "
            f"pre Kafka 2.0 subscription (version: {self.min_received}) at the same time."
        )


def received_versions(versions: Iterable[tuple[int, int]]) -> ReceivedVersions:
    """Fold (version, latest supported version) of every subscription, in the order of the members."""
    min_received = LATEST_SUPPORTED_VERSION
    min_supported = LATEST_SUPPORTED_VERSION
    future: int | None = None
    for used, latest_supported in versions:
        min_received = min(min_received, used)
        min_supported = min(min_supported, latest_supported)
        if used > LATEST_SUPPORTED_VERSION:
            future = used
    return ReceivedVersions(min_received, min_supported, future)


def next_subscription_version(used: int, received: int, commonly_supported: int) -> int:
    """The member's side: the version to subscribe with from now on; other than `used` means: join again at once.

    `used`: version of the subscription that was sent; `received` and `commonly_supported`: of the assignment that came.
    TaskAssignmentError: the leader answered in a version higher than it was sent, or higher than this code knows.
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
