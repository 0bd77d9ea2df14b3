"""What is refused under load, in which order; which groups hear of a broken connection."""

from functools import partial

import pytest

from coordinator_api.clock import LoopMonitor, ServiceClock
from coordinator_api.errors import TooManyRequests
from coordinator_api.metrics import Metrics
from coordinator_api.runtime.admission import MOST_EVENTS_WAITING, Backlog, Kind, Overload
from coordinator_api.runtime.held_requests import GroupsOfConnections, HeldHeartbeats

KINDS: tuple[Kind, ...] = ("computation", "describe", "join")


def overload_at(lag_ms: float, waiting: int = 0) -> tuple[Overload, Metrics]:
    metrics = Metrics()
    monitor = LoopMonitor(ServiceClock(), metrics.loop_lag.observe)
    monitor.lag_ms = lag_ms
    return Overload(monitor, Backlog(waiting), metrics.shed_requests), metrics


def refused(lag_ms: float, waiting: int = 0) -> list[Kind]:
    """The kinds that this service refuses; each of them is counted."""
    overload, metrics = overload_at(lag_ms, waiting)
    told = []
    for kind in KINDS:
        try:
            overload.admit(kind)
        except TooManyRequests:
            told.append(kind)
    shed = {kind: metrics.registry.get_sample_value("assignor_shed_requests_total", {"kind": kind}) for kind in KINDS}
    assert [kind for kind in KINDS if shed[kind] == 1] == told
    return told


@pytest.mark.parametrize(
    "lag_ms, kinds",
    [
        (0, []),
        (100, []),
        (300, ["computation"]),
        (700, ["computation", "describe"]),
        (1_500, ["computation", "describe", "join"]),
    ],
)
def test_should_refuse_computations_first_then_describes_then_joins(lag_ms: float, kinds: list[Kind]) -> None:
    assert refused(lag_ms) == kinds


def test_should_refuse_joins_when_very_many_wait_for_their_commit() -> None:
    assert refused(0, MOST_EVENTS_WAITING - 1) == []
    assert refused(0, MOST_EVENTS_WAITING) == ["join"]


def test_should_ask_for_a_longer_pause_the_further_it_is_behind() -> None:
    overload, _ = overload_at(4_000)
    with pytest.raises(TooManyRequests) as raised:
        overload.admit("join")

    assert raised.value.retry_after_s == 8
    assert "4000 ms behind" in str(raised.value)


def test_should_tell_each_group_once_of_a_connection_that_broke() -> None:
    connections = GroupsOfConnections()
    told: list[tuple[str, int]] = []
    for group_id in ("a", "b", "a"):
        connections.bind(
            7, group_id, ("m",), partial(lambda group_id, number, _: told.append((group_id, number)), group_id)
        )
    connections.bind(8, "a", ("m",), lambda number, _: told.append(("a", number)))
    connections.lost(7)
    connections.lost(7)
    connections.lost(99)

    assert told == [("a", 7), ("b", 7)]
    assert connections.count == 1


def test_should_forget_a_connection_that_the_service_closed() -> None:
    connections = GroupsOfConnections()
    told: list[int] = []
    connections.bind(7, "a", ("m",), lambda number, _: told.append(number))
    connections.closed(7)
    connections.lost(7)

    assert (told, connections.count) == ([], 0)


def test_should_know_on_which_other_connection_a_heartbeat_is_held() -> None:
    heartbeats = HeldHeartbeats()
    with heartbeats.held(1, ("m", "n")), heartbeats.held(2, ("m",)), heartbeats.held(None, ("m",)):
        assert heartbeats.lost(3, ("m", "n", "other")) == {"m": 2, "n": 1}
        assert heartbeats.lost(2, ("m",)) == {"m": 1}
        assert heartbeats.lost(3, ("m",)) == {"m": 1}

    assert heartbeats.lost(3, ("m", "n")) == {}
