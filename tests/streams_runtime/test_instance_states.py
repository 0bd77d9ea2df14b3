"""A listener hears of each change of an instance's state once and in order. Kafka's: `KafkaStreamsTest`."""

from __future__ import annotations

import logging
import threading

import pytest

from streams_runtime.instance_states import InstanceState, ToldStates

CREATED, REBALANCING, RUNNING = InstanceState.CREATED, InstanceState.REBALANCING, InstanceState.RUNNING


def test_should_tell_new_and_old_state_of_each_change_in_order() -> None:
    told: list[tuple[InstanceState, InstanceState]] = []
    states = ToldStates(lambda new, old: told.append((new, old)))
    states.change(REBALANCING)
    states.change(REBALANCING)
    states.change(RUNNING)
    assert told == [], "not before the lock is free"
    states.tell()
    states.tell()

    assert told == [(REBALANCING, CREATED), (RUNNING, REBALANCING)]


def test_should_go_on_when_the_listener_fails(caplog: pytest.LogCaptureFixture) -> None:
    told: list[InstanceState] = []

    def listener(new: InstanceState, old: InstanceState) -> None:
        told.append(new)
        raise ValueError("a listener's own error")

    states = ToldStates(listener)
    with caplog.at_level(logging.ERROR):
        for state in (REBALANCING, RUNNING):
            states.change(state)
            states.tell()

    assert told == [REBALANCING, RUNNING]
    assert caplog.messages[0] == "the state listener failed on the change from created to rebalancing"


def test_should_leave_the_telling_to_the_thread_that_is_telling() -> None:
    told: list[tuple[InstanceState, str]] = []
    in_listener, go_on = threading.Event(), threading.Event()

    def listener(new: InstanceState, old: InstanceState) -> None:
        told.append((new, threading.current_thread().name))
        in_listener.set()
        assert go_on.wait(30)

    states = ToldStates(listener)
    states.change(REBALANCING)
    telling = threading.Thread(target=states.tell, name="first")
    telling.start()
    assert in_listener.wait(30)
    states.change(RUNNING)
    states.tell()  # returns at once
    go_on.set()
    telling.join()

    assert told == [(REBALANCING, "first"), (RUNNING, "first")]


def test_should_take_changes_that_the_listener_itself_makes() -> None:
    told: list[InstanceState] = []

    def listener(new: InstanceState, old: InstanceState) -> None:
        told.append(new)
        if new is REBALANCING:
            states.change(InstanceState.PENDING_SHUTDOWN)
            states.tell()

    states = ToldStates(listener)
    states.change(REBALANCING)
    states.tell()

    assert told == [REBALANCING, InstanceState.PENDING_SHUTDOWN]
