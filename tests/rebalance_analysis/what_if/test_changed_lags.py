"""Lags of a changed round: they are what the task assignor is then told, and running tasks stay running."""

import pytest

from assignor.errors import InputError
from assignor.pipeline.snapshot import Member
from assignor.protocol.consumer_protocol import Subscription, encode_subscription
from assignor.protocol.subscription_info import SubscriptionInfo, encode_subscription_info
from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from rebalance_analysis.what_if import Changes, changed
from tests.rebalance_analysis.what_if.groups import A, B, C, problem_of, recorded_with, run_snapshot

ROUND = "wcflow.8"
STATEFUL = [TaskId(subtopology, partition) for subtopology in (1, 2) for partition in range(6)]


def lags(asked: dict[str, int], *tasks: str) -> dict[ProcessId, list[int]]:
    """By process, of the tasks."""
    problem = problem_of(run_snapshot(ROUND, Changes(lags=asked)))
    return {
        process: [problem.clients[process].lags.lag_for(TaskId.parse(task)) for task in tasks] for process in (A, B, C)
    }


def test_should_be_of_all_that_reported_the_task_and_do_not_run_it() -> None:
    """2_4 runs on b, a and c have some of it; 2_0 runs on a, b has some of it, c reported nothing."""
    assert lags({}, "2_4", "2_0") == {A: [122, LATEST_OFFSET], B: [LATEST_OFFSET, 17], C: [122, 31839]}
    assert lags({"2_4": 5_000, "2_0": 7}, "2_4", "2_0") == {
        A: [5_000, LATEST_OFFSET],
        B: [LATEST_OFFSET, 7],
        C: [5_000, 31839],
    }


def test_should_be_reported_by_the_one_that_is_named() -> None:
    assert lags({"c/2_0": 3, "*": 9}, "2_4", "2_0") == {A: [9, LATEST_OFFSET], B: [LATEST_OFFSET, 9], C: [9, 3]}


@pytest.mark.parametrize(
    ("asked", "lag"), [({"*": 1, "2_4": 2}, 2), ({"2_4": 2, "a/*": 3}, 3), ({"a/2_4": 4, "a/*": 3}, 4)]
)
def test_should_follow_the_most_particular_wish(asked: dict[str, int], lag: int) -> None:
    assert lags(asked, "2_4")[A] == [lag]


def test_should_be_all_there_is_when_more_is_asked() -> None:
    assert lags({"2_4": 10**15}, "2_4") == {A: [34067], B: [LATEST_OFFSET], C: [34067]}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"9_9": 1}, "lags: 9_9 is not a stateful task of this rebalance; there are 1_0, 1_1, .* and 4 more"),
        ({"0_0": 1}, "lags: 0_0 is not a stateful task"),
        ({"x/1_0": 1}, "lags: no instance is called 'x'"),
        ({"one": 1}, "lags: 'one' is not a task id"),
    ],
)
def test_should_say_what_cannot_be_met(asked: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        lags(asked)


def test_should_not_guess_when_end_offsets_are_not_known() -> None:
    failed = recorded_with(ROUND, changelog_end_offsets=None)
    with pytest.raises(InputError, match="lags: the end offsets of this rebalance are not known"):
        changed(failed, Changes(lags={"*": 0}))


def test_should_refuse_members_whose_version_carries_no_offsets() -> None:
    sums = {TaskId(1, 0): -3}
    info = encode_subscription_info(SubscriptionInfo(6, 6, A, task_offset_sums=sums))
    old = recorded_with(ROUND, members={"m": Member(encode_subscription(Subscription(("wcflow-text",), info)))})
    with pytest.raises(InputError, match="lags: member m speaks version 6, without offsets"):
        changed(old, Changes(lags={"1_0": 0}))
