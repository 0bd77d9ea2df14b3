"""Configs of internal topics, who overrides whom, and which topics are created."""

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import BrokersRefusal, IllegalArgumentError, StreamsError
from assignor.topology.cluster import TopicMetadata
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from assignor.topology.internal_topics import InternalTopic, InternalTopicCatalog, ReadyTopics, make_ready
from assignor.types import JAVA_LONG_MAX

_DEFAULTS = AssignmentConfigs()


@pytest.mark.parametrize(
    ("changelog", "key"),
    [
        (ChangelogConfig(ChangelogType.WINDOWED, retention_ms=JAVA_LONG_MAX), "retention.ms"),
        (ChangelogConfig(ChangelogType.VERSIONED, min_compaction_lag_ms=JAVA_LONG_MAX), "min.compaction.lag.ms"),
    ],
)
def test_should_stop_at_the_largest_java_long_when_a_time_overflows(changelog: ChangelogConfig, key: str) -> None:
    assert InternalTopic("topic", 1, changelog=changelog).configs(_DEFAULTS)[key] == str(JAVA_LONG_MAX)


def test_should_fail_when_an_existing_topic_has_another_count() -> None:
    with pytest.raises(StreamsError, match="Existing internal topic t has invalid partitions") as raised:
        make_ready({"t": InternalTopic("t", 3)}, InternalTopicCatalog({"t": TopicMetadata(4)}), _DEFAULTS)

    assert raised.value.message.startswith(
        "Existing internal topic t has invalid partitions: expected: 3; actual: 4. Use 'org.apache.kafka.tools."
    )


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


def test_should_refuse_less_than_one_partition() -> None:
    with pytest.raises(IllegalArgumentError, match="Number of partitions must be at least 1"):
        InternalTopic("t", 0)
