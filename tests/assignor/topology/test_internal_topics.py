"""Configs of internal topics, who overrides whom, and which topics are created."""

from __future__ import annotations

import pytest

from assignor.cluster import TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.errors import BrokersRefusal, IllegalArgumentError, StreamsError
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from assignor.topology.internal_topics import (
    CreatedTopic,
    InternalTopic,
    InternalTopicCatalog,
    ReadyTopics,
    make_ready,
)
from assignor.types import JAVA_LONG_MAX

_DEFAULTS = AssignmentConfigs()


def _changelog(kind: ChangelogType, **configs: str) -> ChangelogConfig:
    retention_ms = 1_000 if kind is ChangelogType.WINDOWED else None
    min_compaction_lag_ms = 1_000 if kind is ChangelogType.VERSIONED else None
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return ChangelogConfig(kind, dotted, retention_ms, min_compaction_lag_ms)


@pytest.mark.parametrize(
    ("changelog", "expected"),
    [
        (None, {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800"}),
        (_changelog(ChangelogType.UNWINDOWED), {"cleanup.policy": "compact"}),
        (_changelog(ChangelogType.WINDOWED), {"cleanup.policy": "compact,delete", "retention.ms": "86401000"}),
        (_changelog(ChangelogType.VERSIONED), {"cleanup.policy": "compact", "min.compaction.lag.ms": "86401000"}),
    ],
)
def test_should_have_kafkas_defaults(changelog: ChangelogConfig | None, expected: dict[str, str]) -> None:
    configs = InternalTopic("topic", 1, changelog=changelog).configs(_DEFAULTS)

    assert configs == {**expected, "message.timestamp.type": "CreateTime"}
    assert list(configs) == sorted(configs)


@pytest.mark.parametrize(
    ("changelog", "expected"),
    [
        (None, {"cleanup.policy": "mine", "retention.ms": "7", "segment.bytes": "52428800"}),
        (_changelog(ChangelogType.UNWINDOWED), {"cleanup.policy": "mine", "retention.ms": "7"}),
        (_changelog(ChangelogType.WINDOWED), {"cleanup.policy": "mine", "retention.ms": "1005"}),
        (
            _changelog(ChangelogType.VERSIONED),
            {"cleanup.policy": "mine", "retention.ms": "7", "min.compaction.lag.ms": "86401000"},
        ),
    ],
)
def test_should_take_topic_configs_over_defaults_but_not_over_the_computed_retention(
    changelog: ChangelogConfig | None, expected: dict[str, str]
) -> None:
    configs = AssignmentConfigs.from_dotted(
        {
            "topic.cleanup.policy": "mine",
            "topic.retention.ms": 7,
            "windowstore.changelog.additional.retention.ms": 5,
        }
    )

    assert InternalTopic("topic", 1, changelog=changelog).configs(configs) == {
        **expected,
        "message.timestamp.type": "CreateTime",
    }


@pytest.mark.parametrize(
    ("changelog", "expected"),
    [
        (_changelog(ChangelogType.UNWINDOWED, cleanup_policy="own"), {"cleanup.policy": "own", "retention.ms": "7"}),
        (
            _changelog(ChangelogType.WINDOWED, retention_ms="9"),
            {"cleanup.policy": "compact,delete", "retention.ms": "9"},
        ),
        (
            _changelog(ChangelogType.VERSIONED, min_compaction_lag_ms="9"),
            {"cleanup.policy": "compact", "retention.ms": "7", "min.compaction.lag.ms": "9"},
        ),
    ],
)
def test_should_take_the_stores_own_configs_over_everything(
    changelog: ChangelogConfig, expected: dict[str, str]
) -> None:
    configs = AssignmentConfigs.from_dotted({"topic.retention.ms": "7"})

    assert InternalTopic("topic", 1, changelog=changelog).configs(configs) == {
        **expected,
        "message.timestamp.type": "CreateTime",
    }


@pytest.mark.parametrize(
    ("changelog", "key"),
    [
        (ChangelogConfig(ChangelogType.WINDOWED, retention_ms=JAVA_LONG_MAX), "retention.ms"),
        (ChangelogConfig(ChangelogType.VERSIONED, min_compaction_lag_ms=JAVA_LONG_MAX), "min.compaction.lag.ms"),
    ],
)
def test_should_stop_at_the_largest_java_long_when_a_time_overflows(changelog: ChangelogConfig, key: str) -> None:
    assert InternalTopic("topic", 1, changelog=changelog).configs(_DEFAULTS)[key] == str(JAVA_LONG_MAX)


def test_should_create_what_is_missing_and_accept_what_fits() -> None:
    topics = {name: InternalTopic(name, 3) for name in ("old", "new")}
    configs = AssignmentConfigs(replication_factor=2)

    assert make_ready(topics, InternalTopicCatalog({"old": TopicMetadata(3)}), configs) == ReadyTopics(
        {"new": CreatedTopic(3, 2, topics["new"].configs(configs))}, {"old": 3, "new": 3}
    )


def test_should_fail_when_an_existing_topic_has_another_count() -> None:
    with pytest.raises(StreamsError, match="Existing internal topic t has invalid partitions") as raised:
        make_ready({"t": InternalTopic("t", 3)}, InternalTopicCatalog({"t": TopicMetadata(4)}), _DEFAULTS)

    assert raised.value.message.startswith(
        "Existing internal topic t has invalid partitions: expected: 3; actual: 4. Use 'org.apache.kafka.tools."
    )
    assert str(raised.value) == f"{raised.value.message} (or delete this topic alone, then start again)"


def test_should_fail_when_a_count_is_not_known() -> None:
    with pytest.raises(StreamsError, match="Topic t number of partitions not defined"):
        make_ready({"t": InternalTopic("t")}, InternalTopicCatalog(), _DEFAULTS)


@pytest.mark.parametrize("failure", ["describe_topics", "create_topics"])
@pytest.mark.parametrize("answer", [None, "ClusterAuthorizationException: not you: never", "no class at all"])
def test_should_fail_with_what_the_brokers_answered_as_cause(failure: str, answer: str | None) -> None:
    catalog = InternalTopicCatalog(failures=frozenset({failure}), refusal=answer)

    with pytest.raises(StreamsError) as raised:
        make_ready({"t": InternalTopic("t", 3)}, catalog, _DEFAULTS)

    cause = raised.value.__cause__
    assert raised.value.as_recorded() == "StreamsException: Could not create topic t."
    assert f"the brokers refused to {failure.partition('_')[0]} it" in str(raised.value)
    if answer is None:
        assert cause is None
    else:
        assert isinstance(cause, BrokersRefusal)
        assert cause.as_recorded() == (answer if ":" in answer else f"KafkaException: {answer}")
        assert answer in str(raised.value)


@pytest.mark.parametrize("failure", ["describe_topics", "create_topics", "changelog_end_offsets"])
def test_should_not_ask_the_brokers_when_there_is_nothing_to_ask_for(failure: str) -> None:
    assert make_ready({}, InternalTopicCatalog(failures=frozenset({failure})), _DEFAULTS) == ReadyTopics()


def test_should_not_create_topics_when_all_exist() -> None:
    catalog = InternalTopicCatalog({"t": TopicMetadata(3)}, frozenset({"create_topics"}))

    assert make_ready({"t": InternalTopic("t", 3)}, catalog, _DEFAULTS) == ReadyTopics({}, {"t": 3})


def test_should_refuse_less_than_one_partition() -> None:
    with pytest.raises(IllegalArgumentError, match="Number of partitions must be at least 1"):
        InternalTopic("t", 0)


def test_should_keep_a_fixed_count() -> None:
    fixed = InternalTopic("t", 3, fixed_partitions=True)

    assert fixed.with_partitions(9) == fixed
    assert InternalTopic("t", 3).with_partitions(9) == InternalTopic("t", 9)


def test_should_know_the_topics_that_this_round_created() -> None:
    catalog = InternalTopicCatalog({"old": TopicMetadata(3)}, frozenset({"create_topics"}))
    created = {"new": CreatedTopic(2, -1, {})}

    assert catalog.with_created(created) == InternalTopicCatalog(
        {"old": TopicMetadata(3), "new": TopicMetadata(2)}, frozenset({"create_topics"})
    )
    assert catalog.with_created({}) == catalog
