"""Definitions: what is declared, what members need, and how one is named on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assignor.errors import InputError
from assignor.recording import parse_rebalance_input
from assignor.types import TaskId, TopicPartition
from spark_jobs.definition import GroupDefinition, as_definition, load_definition
from spark_jobs.demo_group import demo_definition


def test_should_declare_nothing_but_what_a_definition_has() -> None:
    definition = demo_definition()
    body = definition.body()
    assert "members" not in body
    assert "leader_process_id" not in body
    assert parse_rebalance_input({**body, "members": {}, "leader_process_id": None}) == definition.declared


def test_should_tell_members_topics_and_changelogs() -> None:
    definition = demo_definition(500)
    assert definition.source_topics() == ("clicks", "demo-totals-repartition", "orders")
    changelogs = definition.changelogs()
    assert set(changelogs) == {TaskId(subtopology, partition) for subtopology in range(3) for partition in range(8)}
    assert changelogs[TaskId(1, 5)] == {TopicPartition("demo-totals-changelog", 5): 500}


def test_should_take_the_committed_offsets_when_a_source_topic_is_the_changelog() -> None:
    body = demo_definition(500).body()
    topology = body["topology"]
    assert isinstance(topology, dict)
    (store,) = topology["subtopologies"][0]["stores"]
    store.update(changelog_topic=None, source_topic_as_changelog="orders")
    body["committed_offsets"] = {"orders": [3, None, 5]}
    changelogs = as_definition({"group_id": "demo", "input": body}, "test").changelogs()
    assert changelogs[TaskId(0, 0)] == {TopicPartition("orders", 0): 3}
    assert changelogs[TaskId(0, 1)] == {TopicPartition("orders", 1): 0}
    assert TaskId(0, 3) not in changelogs


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "my_streams_app.py").write_text(
        "from spark_jobs.demo_group import demo_definition\n"
        "as_object = demo_definition(1)\n"
        "def as_function(): return demo_definition(2)\n"
        "as_mapping = {'group_id': 'mine', 'input': demo_definition(3).body()}\n"
        "as_number = 5\n"
        "without_input = {'group_id': 'mine'}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_streams_app"
    sys.modules.pop("my_streams_app", None)


@pytest.mark.parametrize(
    "name,group_id,end", [("as_object", "demo", 1), ("as_function", "demo", 2), ("as_mapping", "mine", 3)]
)
def test_should_load_what_module_and_name_say(user_module: str, name: str, group_id: str, end: int) -> None:
    definition = load_definition(f"{user_module}:{name}")
    assert isinstance(definition, GroupDefinition)
    assert definition.group_id == group_id
    assert definition.changelogs()[TaskId(0, 0)] == {TopicPartition("demo-customers-changelog", 0): end}


@pytest.mark.parametrize(
    "reference,message",
    [
        ("no_colon", "is not module:name"),
        ("nowhere_to_be_found:app", "cannot be imported"),
        ("my_streams_app:missing", "has no 'missing'"),
        ("my_streams_app:as_number", "gives int"),
        ("my_streams_app:without_input", "needs `group_id`"),
    ],
)
def test_should_say_what_is_wrong_with_a_name(user_module: str, reference: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_definition(reference)
