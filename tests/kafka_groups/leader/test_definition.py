"""Values of --topology and --config."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from assignor.errors import InputError
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import rebalance_input
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from kafka_groups.application import placement_configs, read_application_file, topology_facts
from kafka_groups.described.stores import StoreFacts
from kafka_groups.leader.leading import LedApplication, configs_from_options
from tests.checkout import ROOT
from tests.group_model import SimulatedGroup, topology_of

GROUP = SimulatedGroup(*topology_of([2]), leader_in_group=False)
INPUT = rebalance_input(GROUP.snapshot())
SEEN = {"topic-0": 2}
DESCRIBED = (ROOT / "tests/kafka_groups/described/texts/counting_topic_0.txt").read_text()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "topology.txt"
    path.write_text(DESCRIBED)
    return path


def defined(
    path: Path,
    seen: Mapping[str, int] = SEEN,
    changelogs: Mapping[str, Mapping[str, str]] | None = None,
    *,
    assignor: str | None = None,
    configs: Mapping[str, object] | None = None,
    stores: Sequence[str] = (),
) -> tuple[RebalanceSnapshot, tuple[str, ...]]:
    """Of the group `app`. `stores`: values of --store."""
    application = LedApplication(read_application_file(path), configs or {}, assignor, topology_facts(stores))
    return application.definition("app", seen, changelogs or {})


@pytest.mark.parametrize(
    "content", [INPUT["topology"], INPUT, {"input": INPUT}], ids=["topology", "definition", "recording"]
)
def test_should_read_json_in_every_form(content: object, path: Path) -> None:
    path.write_text(json.dumps(content))
    definition, assumptions = defined(path, {})
    assert (definition.topology, assumptions) == (GROUP.topology, ())
    assert (definition.application_id, definition.assignor) == ("app", "HighAvailabilityTaskAssignor")
    assert dict(definition.members) == {}


def test_should_name_the_file_whose_text_is_no_description(path: Path) -> None:
    path.write_text("no topology")
    with pytest.raises(InputError) as raised:
        defined(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_should_take_what_is_said_of_stores(path: Path) -> None:
    definition, _ = defined(path, stores=["store-0=retention.ms:86400000"])
    (store,) = definition.topology.subtopologies[0].stores
    assert store.changelog == ChangelogConfig(ChangelogType.WINDOWED, retention_ms=86_400_000)
    options = ["a=not-logged", "b=topic:lines", "c=history.retention.ms:7", "d=key-value"]
    assert topology_facts(options).stores == StoreFacts({"a"}, {"b": "lines"}, {}, {"c": 7}, {"d"})


def test_should_know_a_store_by_the_configs_of_its_changelog_and_name_the_others_and_what_to_say(path: Path) -> None:
    path.write_text(DESCRIBED.replace("[store-0]", "[store-0, store-1, KSTREAM-AGGREGATE-STATE-STORE-0000000009]"))
    known = {"cleanup.policy": "compact,delete", "retention.ms": "3600000"}
    topics = {**SEEN, "app-store-0-changelog": 2}
    configs = {"windowstore.changelog.additional.retention.ms": "600000"}
    definition, assumptions = defined(path, topics, {"app-store-0-changelog": known}, configs=configs)
    (subtopology,) = definition.topology.subtopologies
    first = subtopology.stores[0]
    assert (subtopology.source_topics, first.name, first.changelog_topic) == (
        ("topic-0",),
        "store-0",
        "app-store-0-changelog",
    )
    assert first.changelog == ChangelogConfig(ChangelogType.WINDOWED, retention_ms=3_000_000)
    assert [each for each in assumptions if "store-0" in each] == []
    assert (
        "not known which they are, changelogs assumed to be compacted only: store-1 (key-value, windowed or "
        "versioned), KSTREAM-AGGREGATE-STATE-STORE-0000000009 (key-value or windowed)"
    ) in assumptions
    assert "--store STORE=key-value" in assumptions[-1]


def test_should_name_a_store_whose_changelog_cannot_be_looked_at(path: Path) -> None:
    _, assumptions = defined(path, {**SEEN, "app-store-0-changelog": 2})
    assert any("store-0 (key-value, windowed or versioned)" in each for each in assumptions)


@pytest.mark.parametrize(
    "option", ["a", "a=", "=not-logged", "a=topic:", "a=retention.ms:-1", "a=history.retention.ms:", "a=logged"]
)
def test_should_refuse_what_says_nothing_of_a_store(option: str) -> None:
    with pytest.raises(InputError, match="--store: must be STORE=not-logged"):
        topology_facts([option])


def test_should_refuse_facts_of_stores_that_the_file_describes(path: Path) -> None:
    path.write_text(json.dumps(INPUT))
    with pytest.raises(InputError, match=r"--store: goes with the text of Topology#describe only; .*\.txt already"):
        defined(path, stores=["store-0=not-logged"])


def test_should_let_the_command_line_go_before_the_file(path: Path) -> None:
    path.write_text(json.dumps({**INPUT, "configs": {"num.standby.replicas": 1, "max.warmup.replicas": 3}}))
    configs = configs_from_options(["num.standby.replicas=2"])
    definition, _ = defined(path, assignor="LegacyStickyTaskAssignor", configs=configs)
    assert (definition.configs.num_standby_replicas, definition.configs.max_warmup_replicas) == (2, 3)
    assert definition.assignor == "LegacyStickyTaskAssignor"


def test_should_take_from_the_application_s_properties_what_the_assignor_knows() -> None:
    properties = {"application.id": "app", "num.standby.replicas": "1", "topic.retention.ms": "5", "poll.ms": "1"}
    assert placement_configs(properties) == {"num.standby.replicas": "1", "topic.retention.ms": "5"}


@pytest.mark.parametrize("option", ["num.standby.replicas", "=1"])
def test_should_refuse_a_config_that_is_no_pair(option: str) -> None:
    with pytest.raises(InputError, match="--config: must be key=value"):
        configs_from_options([option])


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"{}", "has neither 'subtopologies'"), (b"{", "is not a line of JSON"), (b"\xff\xfe", "it is not UTF-8")],
)
def test_should_say_what_is_wrong_with_the_file(content: bytes, words: str, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as raised:
        read_application_file(path)
    assert str(path) in str(raised.value)
