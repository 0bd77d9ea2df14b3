"""A listener gets each change of an instance's state once and in order. Kafka's: `KafkaStreamsTest`."""

import logging
import threading

import pytest

from streams_runtime.common.states import InstanceState
from streams_runtime.instance.streams_instance import ListenedState

CREATED, REBALANCING, RUNNING = InstanceState.CREATED, InstanceState.REBALANCING, InstanceState.RUNNING


def test_should_tell_new_and_old_state_of_each_change_in_order() -> None:
    told: list[tuple[InstanceState, InstanceState]] = []
    state = ListenedState(lambda new, old: told.append((new, old)))
    state.change(REBALANCING)
    state.change(REBALANCING)
    state.change(RUNNING)
    assert told == [], "not before the lock is free"
    state.notify()
    state.notify()

    assert told == [(REBALANCING, CREATED), (RUNNING, REBALANCING)]


def test_should_go_on_when_the_listener_fails(caplog: pytest.LogCaptureFixture) -> None:
    told: list[InstanceState] = []

    def listener(new: InstanceState, old: InstanceState) -> None:
        told.append(new)
        raise ValueError("a listener's own error")

    state = ListenedState(listener)
    with caplog.at_level(logging.ERROR):
        for new_state in (REBALANCING, RUNNING):
            state.change(new_state)
            state.notify()

    assert told == [REBALANCING, RUNNING]
    assert caplog.messages[0] == "the state listener failed on the change from created to rebalancing"


def test_should_leave_the_telling_to_the_thread_that_is_telling() -> None:
    told: list[tuple[InstanceState, str]] = []
    in_listener, go_on = threading.Event(), threading.Event()

    def listener(new: InstanceState, old: InstanceState) -> None:
        told.append((new, threading.current_thread().name))
        in_listener.set()
        assert go_on.wait(30)

    state = ListenedState(listener)
    state.change(REBALANCING)
    telling = threading.Thread(target=state.notify, name="first")
    telling.start()
    assert in_listener.wait(30)
    state.change(RUNNING)
    state.notify()  # returns at once
    go_on.set()
    telling.join()

    assert told == [(REBALANCING, "first"), (RUNNING, "first")]


def test_should_take_changes_that_the_listener_itself_makes() -> None:
    told: list[InstanceState] = []

    def listener(new: InstanceState, old: InstanceState) -> None:
        told.append(new)
        if new is REBALANCING:
            state.change(InstanceState.PENDING_SHUTDOWN)
            state.notify()

    state = ListenedState(listener)
    state.change(REBALANCING)
    state.notify()

    assert told == [REBALANCING, InstanceState.PENDING_SHUTDOWN]
