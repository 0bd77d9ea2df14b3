"""The Kafka versions whose results this project reproduces, and the rules that differ between these versions.

The setting `kafka.version` of a group names one of these versions. If a rule is not in `KafkaRules`, it is the same in
all of these versions. To add a version, add a member to `KafkaVersion`. Also add test vectors of the release to
`tests/vectors`.
"""

import re
from enum import StrEnum
from typing import NamedTuple, Self

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX


class KafkaRules(NamedTuple):
    """The rules of one version.

    `release`: the release of Kafka that computed the test vectors of this version. `rounds_active_share_up`: True if
    StickyTaskAssignor (KIP-924) rounds up a client's share of all tasks. False if StickyTaskAssignor rounds the number
    of tasks per thread down, and multiplies the rounded number by the client's threads. `sorts_candidates_by_offset`:
    True if the candidates for a task of a streams group (KIP-1071) are sorted by the offset that they report. In this
    case, a member is also a candidate if it reports an offset for the task. A candidate is skipped if its process has
    the task. `computes_processes_if_absent`: True if Kafka calls `computeIfAbsent` to fill the map of a streams group's
    processes, False if Kafka calls `putIfAbsent`. `names_app_server`: True if Kafka's messages contain
    `application.server` after the name of the thread.

    `refuses_incomplete_endpoints`: True if Kafka refuses an endpoint that has no host, and an endpoint whose port is
    not an int. If this rule holds, Kafka also checks `application.server` together with all other configs (KIP-1245).
    `largest_collection`: the largest length of an array in a subscription. `upgrade_from`: the values of
    `upgrade.from`, oldest first.
    """

    release: str
    rounds_active_share_up: bool
    sorts_candidates_by_offset: bool
    computes_processes_if_absent: bool
    names_app_server: bool
    refuses_incomplete_endpoints: bool
    largest_collection: int
    upgrade_from: tuple[str, ...]


_UPGRADE_FROM_4_3 = (
    *("2.4", "2.5", "2.6", "2.7", "2.8"),
    *("3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2"),
)


class KafkaVersion(StrEnum):
    """A value of the setting `kafka.version`, with the rules of the version."""

    rules: KafkaRules

    V4_3 = (
        "4.3",
        KafkaRules(
            release="4.3.1",
            rounds_active_share_up=False,
            sorts_candidates_by_offset=False,
            computes_processes_if_absent=False,
            names_app_server=False,
            refuses_incomplete_endpoints=False,
            largest_collection=JAVA_INT_MAX,
            upgrade_from=_UPGRADE_FROM_4_3,
        ),
    )
    V4_4 = (
        "4.4",
        KafkaRules(
            release="4.4.0",
            rounds_active_share_up=True,
            sorts_candidates_by_offset=True,
            computes_processes_if_absent=True,
            names_app_server=True,
            refuses_incomplete_endpoints=True,
            largest_collection=1_000_000,
            upgrade_from=(*_UPGRADE_FROM_4_3, "4.3"),
        ),
    )

    def __new__(cls, name: str, rules: KafkaRules) -> Self:
        version = str.__new__(cls, name)
        version._value_ = name
        version.rules = rules
        return version

    def release(self, recorded: str | None = None) -> str:
        """Returns `recorded` if it is a release of this version, otherwise the release that computed the test
        vectors.
        """
        of_this_version = recorded is not None and version_of_release(recorded) is self
        return recorded if recorded is not None and of_this_version else self.rules.release


_VERSIONS = {str(version): version for version in KafkaVersion}

EQUAL_RELEASES = " and ".join(version.rules.release for version in KafkaVersion)

VERSION_WITHOUT_A_NAME = KafkaVersion.V4_3
"""The version of recordings and stored groups that name no version, because they are older than the setting
`kafka.version`.
"""

VERSION_OF_NEW_GROUPS = KafkaVersion.V4_4

_RELEASE = re.compile(r"(\d+\.\d+)\.\d+\Z", re.ASCII)


def kafka_version_named(name: str, where: str = "kafka.version") -> KafkaVersion:
    """Returns the version that a setting such as `4.4` names. Raises InputError for a version that is not known."""
    version = _VERSIONS.get(name)
    if version is None:
        raise InputError(f"must be one of {', '.join(_VERSIONS)}, not {name!r}", where)
    return version


def version_of_release(release: str, where: str = "kafka_version") -> KafkaVersion:
    """Returns the version of a release such as `4.4.0`. All releases of a version give equal results. Raises InputError
    if the text is not a release of a known version.
    """
    match = _RELEASE.match(release)
    version = None if match is None else _VERSIONS.get(match[1])
    if version is None:
        known = " or ".join(f"{version}.x" for version in KafkaVersion)
        raise InputError(f"must be a release {known}, not {release[:40]!r}", where)
    return version
