"""Several instances of one host: a standby is on another host where there is one, unless the user says otherwise."""

import socket
from typing import Any

import pytest

from assignor.configs import AssignmentConfigs
from assignor.errors import InputError
from assignor.types import TaskId
from streams_runtime.common.states import TaskType
from streams_runtime.configs import LONGEST_TAG_VALUE, StreamsConfig
from streams_runtime.instance import instance_resources
from streams_runtime.instance.application import group_body
from streams_runtime.instance.instance_resources import host_tag
from tests.streams_runtime.running_group import SOME_LINES, Group
from tests.streams_runtime.word_counting import counting_definition, wait_for

STATEFUL = {TaskId(1, 0), TaskId(1, 1)}
TAGS = "rack.aware.assignment.tags"


def configured(**more: object) -> StreamsConfig:
    return StreamsConfig.from_dotted(
        {"application.id": "a", "bootstrap.servers": "broker:9092", "num.standby.replicas": 1}
        | {name.replace("_", "."): value for name, value in more.items()}
    )


def tags_of(configs: StreamsConfig) -> tuple[str, ...]:
    return AssignmentConfigs.from_dotted(configs.placement).rack_aware_assignment_tags


def test_should_spread_standbys_over_hosts_when_nothing_is_said_about_tags() -> None:
    configs = configured()
    assert (configs.spreads_over_hosts, tags_of(configs)) == (True, ("host",))
    assert configs.placement == {"num.standby.replicas": 1, TAGS: "host"}
    assert AssignmentConfigs().rack_aware_assignment_tags == (), "the default of the library is Kafka's"


@pytest.mark.parametrize(
    "said,tags",
    [
        ({"client_tag_zone": "a"}, ()),
        ({"rack_aware_assignment_tags": ""}, ()),
        ({"rack_aware_assignment_tags": []}, ()),
        ({"rack_aware_assignment_tags": "zone", "client_tag_zone": "a"}, ("zone",)),
        ({"rack_aware_assignment_tags": "rack"}, ("rack",)),
    ],
)
def test_should_leave_tags_to_the_user_who_sets_any(said: dict[str, object], tags: tuple[str, ...]) -> None:
    configs = configured(**said)
    assert (configs.spreads_over_hosts, tags_of(configs)) == (False, tags)
    assert configs.placement == configs.assignment


@pytest.mark.parametrize("name", ["node-1", "n" * LONGEST_TAG_VALUE, "ip-10-20-30-40.eu-central-1.compute.internal"])
def test_should_make_a_tag_within_kafkas_limits_of_every_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    tag = host_tag()
    assert (tag == name) == (len(name) <= LONGEST_TAG_VALUE)
    assert configured(client_tag_host=tag).client_tags == {"host": tag}
    monkeypatch.setattr(socket, "gethostname", lambda: f"{name}-2")
    assert host_tag() != tag


def test_should_refuse_a_name_of_a_host_that_is_too_long_for_a_tag_of_the_users() -> None:
    with pytest.raises(InputError, match=r"client\.tag\.host"):
        configured(client_tag_host="n" * (LONGEST_TAG_VALUE + 1))


def declare(group: Group, **configs: Any) -> None:
    """With the configs that an application declares."""
    application = group.application(**configs)
    definition = counting_definition(application, standbys=0).body()
    group.client.declare(group.id, {**definition, "configs": group_body(application)["configs"]})


def start_on(host: str, group: Group, name: str, monkeypatch: pytest.MonkeyPatch, **configs: Any) -> None:
    monkeypatch.setattr(instance_resources, "host_tag", lambda: host)
    group.start(name, num_stream_threads=1, **configs)


def hosts_of(group: Group, role: TaskType) -> dict[TaskId, str]:
    """Of the stateful tasks: the host whose name each instance's name begins with."""
    return {
        task.task_id: thread.name.partition("-")[0].rstrip("0123456789")
        for instance in group.instances
        for thread in instance.status().threads
        for task in thread.tasks
        if task.role is role and task.task_id in STATEFUL
    }


def test_should_place_each_standby_on_another_host(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(group, num_standby_replicas=1)
    for name in ("here1", "here2", "here3"):
        start_on("here", group, name, monkeypatch)
    start_on("there", group, "there1", monkeypatch)
    group.write(SOME_LINES)
    group.wait_until_counted()

    def spread() -> bool:
        active, standby = hosts_of(group, TaskType.ACTIVE), hosts_of(group, TaskType.STANDBY)
        return active.keys() == standby.keys() == STATEFUL and all(active[task] != standby[task] for task in STATEFUL)

    wait_for(spread, lambda: [instance.status() for instance in group.instances])
    members = group.client.describe(group.id)["members"]
    assert isinstance(members, list)
    tags = {member["client_id"]: member["client_tags"] for member in members}
    assert tags == {f"here{number}-0": {"host": "here"} for number in (1, 2, 3)} | {"there1-0": {"host": "there"}}


def test_should_give_no_tag_where_it_is_turned_off(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    off = {"rack_aware_assignment_tags": ""}
    declare(group, **off)
    start_on("here", group, "here1", monkeypatch, **off)
    group.write(SOME_LINES)
    group.wait_until_counted()
    (member,) = group.client.describe(group.id)["members"]
    assert member["client_tags"] == {}
