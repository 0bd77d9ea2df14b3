"""What options of `assignor lead` and `assignor record` and the application's own properties say, without Kafka."""

import logging
from dataclasses import asdict
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from assignor.errors import InputError
from coordinator_client.calls import CoordinatorAddress
from kafka_groups.application import configured_assignor, topology_facts
from kafka_groups.described.copartition import CopartitionFacts
from kafka_groups.leader.lead_command import LeadOptions, lead
from kafka_groups.recorder.following import RecordingLimits
from kafka_groups.recorder.record_command import RecordOptions

_INTERNALS = "org.apache.kafka.streams.processor.internals.assignment"
BROKER = "127.0.0.1:9092"


@pytest.mark.parametrize(
    "properties, name",
    [
        ({}, None),
        (
            {"internal.task.assignor.class": f"{_INTERNALS}.HighAvailabilityTaskAssignor"},
            "HighAvailabilityTaskAssignor",
        ),
        ({"internal.task.assignor.class": f"{_INTERNALS}.StickyTaskAssignor"}, "LegacyStickyTaskAssignor"),
        (
            {"task.assignor.class": "org.apache.kafka.streams.processor.assignment.StickyTaskAssignor"},
            "StickyTaskAssignor",
        ),
    ],
)
def test_should_know_the_assignor_of_an_application_by_its_class(properties: dict[str, str], name: str | None) -> None:
    assert configured_assignor(properties) == name


def test_should_name_the_key_of_a_client_property_that_the_leader_cannot_use(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("metadata.max.age.ms=soon\n")
    options = LeadOptions(BROKER, "orders", tmp_path / "topology.txt", command_config=tmp_path / "client.properties")

    with pytest.raises(InputError, match=r"metadata\.max\.age\.ms"):
        options.client()


def test_should_read_groups_of_topics() -> None:
    facts = topology_facts([], ["a, b", "b,c,d"], ["x,y"])

    assert facts.copartition == CopartitionFacts((frozenset("ab"), frozenset("bcd")), (frozenset("xy"),))


@pytest.mark.parametrize("text", ["", "a", "a,", ",", "a,a"])
def test_should_refuse_fewer_than_two_topics(text: str) -> None:
    with pytest.raises(InputError, match="--not-copartitioned: must be at least two topics, as A,B, not"):
        topology_facts(not_copartitioned=[text])


@pytest.mark.parametrize(
    ("optimization", "reuses"),
    [
        (None, None),
        ("none", False),
        ("all", True),
        ("merge.repartition.topics", False),
        ("merge.repartition.topics, reuse.ktable.source.topics", True),
    ],
)
def test_should_know_by_the_optimization_how_tables_are_restored(optimization: str | None, reuses: bool | None) -> None:
    assert topology_facts(optimization=optimization).stores.reuses_source_topics is reuses


def test_should_refuse_an_optimization_that_kafka_does_not_have() -> None:
    with pytest.raises(InputError, match=r"topology.optimization: must be of all, .*, not 'some'"):
        topology_facts(optimization="some")


def test_should_refuse_facts_about_a_topology_that_is_given_in_full() -> None:
    with pytest.raises(
        InputError, match=r"--copartitioned: goes with the text of Topology#describe only; x\.json already"
    ):
        topology_facts(copartitioned=["a,b"]).check_unused("x.json")


def test_should_lead_with_the_defaults_of_a_consumer(tmp_path: Path) -> None:
    options = LeadOptions(BROKER, "orders", tmp_path / "topology.txt")

    settings = options.settings()

    assert (settings.group, settings.group_instance_id) == ("orders", "orders-assignor-leader")
    assert (settings.session_timeout_ms, settings.retry_timeout_ms) == (None, 120_000)
    assert (settings.stand_by, settings.join_anyway, settings.wait) == (False, False, False)
    assert options.client().addresses == (("127.0.0.1", 9092),)


def test_should_put_the_command_line_before_the_applications_properties(tmp_path: Path) -> None:
    topology, properties = tmp_path / "topology.txt", tmp_path / "app.properties"
    topology.write_text("Topologies:\n")
    properties.write_text("num.standby.replicas=2\nmax.warmup.replicas=4\nbootstrap.servers=elsewhere:1\n")
    options = LeadOptions(BROKER, "orders", topology, ["num.standby.replicas=1"], properties)

    application = options.application()

    assert application.configs == {"num.standby.replicas": "1", "max.warmup.replicas": "4"}
    assert (application.assignor, application.file.description) == (None, "Topologies:\n")


def test_should_report_where_the_options_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology, token = tmp_path / "topology.txt", tmp_path / "token"
    topology.write_text("Topologies:\n")
    token.write_text("secret")
    leading = AsyncMock()
    monkeypatch.setattr("kafka_groups.leader.leading.lead_until_stopped", leading)
    monkeypatch.setattr(logging.getLogger("aiokafka"), "setLevel", lambda level: None)
    options = LeadOptions(BROKER, "g", topology, output="led.jsonl", coordinator="http://a:1", token_file=token)
    lead(**asdict(options))
    assert leading.call_args.args[3:5] == ("led.jsonl", CoordinatorAddress("http://a:1", token))


def test_should_refuse_a_standby_that_joins_anyway(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--join-anyway: does not go with --standby"):
        LeadOptions(BROKER, "g", tmp_path, standby=True, join_anyway=True)


def test_should_record_as_the_options_say(tmp_path: Path) -> None:
    options = RecordOptions(
        BROKER, ["orders"], tmp_path / "o.jsonl", once=True, until_generations=3, for_seconds=2.0, look_every=0.1
    )

    following = options.following()

    try:
        assert [choices.group for choices in following.groups] == ["orders"]
        assert following.limits == RecordingLimits(3, 2.0, at_end=True)
        assert (following.from_start, following.poll_interval_s, following.coordinator) == (False, 0.1, None)
    finally:
        following.output.close()
