"""A rolling restart of real instances: with a rejoin grace nothing moves, without one every restart moves tasks."""

from typing import Any

import httpx
import pytest

from streams_runtime.instance.streams_instance import StreamsInstance
from tests.no_tls import NO_TLS
from tests.streams_runtime.running_group import SOME_LINES, Group
from tests.streams_runtime.word_counting import TIMEOUT_S, wait_for

pytestmark = pytest.mark.long

NAMES = ("a", "b", "c")
MEMBERS = 6
"""Each instance has two threads."""


@pytest.fixture
def group(group: Group) -> Group:
    group.declare(standbys=0)
    return group


def test_should_move_nothing_in_a_rolling_restart_with_a_rejoin_grace(group: Group) -> None:
    instances = _started(group)
    assert httpx.put(f"{_address(group)}/rejoin-grace", json={"grace_ms": 60_000}, verify=NO_TLS).status_code == 204
    before = _owners(group)
    rebalances = len(_rebalances(group))

    for name in NAMES:
        group.write(SOME_LINES)
        _restart(group, instances, name)
        group.wait_until_counted()

    assert _owners(group) == before
    assert len(_rebalances(group)) == rebalances


def test_should_rebalance_in_a_rolling_restart_without_a_rejoin_grace(group: Group) -> None:
    instances = _started(group)
    rebalances = len(_rebalances(group))

    for name in NAMES:
        group.write(SOME_LINES)
        _restart(group, instances, name)
        group.wait_until_counted()

    assert len(_rebalances(group)) - rebalances >= len(NAMES)


def _started(group: Group) -> dict[str, StreamsInstance]:
    instances = {name: group.start(name) for name in NAMES}
    group.write(SOME_LINES)
    group.wait_until_settled(*instances.values(), standbys=0)
    group.wait_until_counted()
    wait_for(lambda: _is_calm(group), lambda: _described(group))
    return instances


def _restart(group: Group, instances: dict[str, StreamsInstance], name: str) -> None:
    assert instances[name].close(TIMEOUT_S)
    instances[name] = group.start(name)
    assert instances[name].wait_until_running(TIMEOUT_S)
    wait_for(lambda: _is_calm(group), lambda: _described(group))


def _is_calm(group: Group) -> bool:
    """Every instance is a member with tasks of the last rebalance, and no rebalance is under way or due soon."""
    described = _described(group)
    fetched = [each["fetched"] for each in described["members"] if each["away_until_ms"] is None]
    outcome = described["last_rebalance"] and described["last_rebalance"]["outcome"]
    return described["state"] == "Stable" and fetched == [True] * MEMBERS and outcome != "follow-up"


def _owners(group: Group) -> dict[str, str]:
    """Process by task."""
    return {each["task"]: each["process_id"] for each in _described(group)["tasks"] if each["role"] == "active"}


def _described(group: Group) -> Any:
    return httpx.get(_address(group), verify=NO_TLS).json()


def _rebalances(group: Group) -> Any:
    return httpx.get(f"{_address(group)}/rebalances", params={"limit": 100}, verify=NO_TLS).json()["rebalances"]


def _address(group: Group) -> str:
    return f"{group.client.addresses}/v1/groups/{group.id}"
