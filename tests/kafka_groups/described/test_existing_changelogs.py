"""The configs of a changelog give back the store that it was created for."""

import pytest

from assignor.configs import AssignmentConfigs
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from assignor.topology.internal_topics import InternalTopic
from kafka_groups.described.stores import changelog_of_configs

_STORES = [
    ChangelogConfig(),
    ChangelogConfig(configs={"segment.bytes": "1048576"}),
    ChangelogConfig(ChangelogType.WINDOWED, retention_ms=300_000),
    ChangelogConfig(ChangelogType.WINDOWED, {"segment.ms": "60000"}, retention_ms=0),
    ChangelogConfig(ChangelogType.VERSIONED, min_compaction_lag_ms=600_000),
]
_APPLICATIONS = [
    {},
    {"windowstore.changelog.additional.retention.ms": "1000"},
    {"topic.segment.bytes": "2097152", "topic.retention.ms": "7", "topic.min.compaction.lag.ms": "100000000"},
    {"topic.cleanup.policy": "compact"},
    {"topic.cleanup.policy": "compact,delete"},
]


def _created(changelog: ChangelogConfig, configs: AssignmentConfigs) -> dict[str, str]:
    return InternalTopic("app-store-changelog", changelog=changelog).configs(configs)


@pytest.mark.parametrize("store", _STORES, ids=lambda each: f"{each.type}-{len(each.configs)}")
@pytest.mark.parametrize("application", _APPLICATIONS, ids=lambda each: ",".join(each) or "defaults")
def test_should_find_the_store_of_a_changelog(store: ChangelogConfig, application: dict[str, str]) -> None:
    configs = AssignmentConfigs.from_dotted(application)
    assert changelog_of_configs(_created(store, configs), configs) == store


def test_should_leave_out_what_only_a_reassignment_sets() -> None:
    own = {"cleanup.policy": "compact", "leader.replication.throttled.replicas": "0:1"}
    assert changelog_of_configs(own, AssignmentConfigs()) == ChangelogConfig()


@pytest.mark.parametrize(
    "own",
    [
        {"cleanup.policy": "compact", "retention.ms": "5"},
        {"cleanup.policy": "compact,delete"},
        {"cleanup.policy": "delete,compact", "retention.ms": "-1"},
        {"cleanup.policy": "compact", "min.compaction.lag.ms": "5"},
        {"cleanup.policy": "compact", "compression.type": "lz4"},
    ],
)
def test_should_create_a_changelog_again_as_somebody_has_altered_it(own: dict[str, str]) -> None:
    configs = AssignmentConfigs()
    again = _created(changelog_of_configs(own, configs), configs)
    policies = [set(each.pop("cleanup.policy").split(",")) for each in (own, again)]
    assert policies[0] == policies[1]
    assert again == {**own, "message.timestamp.type": "CreateTime"}
