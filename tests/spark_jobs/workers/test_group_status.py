"""The coordinator's word and the instances' own, put together."""

from typing import Any

import pytest

from spark_jobs.ownership.group_status import CopyStatus, GroupStatus, ThreadRow, thread_rows
from spark_jobs.ownership.group_view import GroupView, MemberView

ENDPOINT = "127.0.0.1:7071"


def member(name: str, *, endpoint: str | None = ENDPOINT, **tasks: tuple[str, ...]) -> MemberView:
    held = {role: tasks.get(role, ()) for role in ("active", "standby", "warm_up")}
    return MemberView(f"{name}-id", name, "process", True, True, 0, **held, user_endpoint=endpoint)


Numbers = dict[tuple[str, str], int]


def view(*members: MemberView, lags: Numbers | None = None, left_ms: Numbers | None = None) -> GroupView:
    return GroupView("Stable", 7, "stable", members, lags or {}, left_ms=left_ms or {})


def held(task: str, role: str, state: str, lag: int | None, restored: int = 0) -> dict[str, Any]:
    return {"task": task, "role": role, "state": state, "lag": lag, "restored": restored, "processed": 0}


def test_should_take_progress_from_the_instance_and_warm_ups_from_the_coordinator() -> None:
    status = {
        "threads": [
            {
                "name": "a-t0",
                "state": "partitions-assigned",
                "tasks": [
                    held("0_0", "active", "running", 0, 5),
                    held("0_1", "active", "restoring", 25, 75),
                    held("0_2", "standby", "running", 3),
                    held("0_3", "standby", "created", None),
                ],
            }
        ]
    }
    a = member("a-t0", active=("0_0", "0_1"), standby=("0_2",), warm_up=("0_3",))
    seen = view(a, left_ms={("0_1", "a-t0-id"): 9_000, ("0_2", "other"): 5_000})
    assert thread_rows(seen, {ENDPOINT: status}) == (
        ThreadRow(
            ENDPOINT,
            "a-t0",
            "partitions-assigned",
            (
                CopyStatus("0_0", "active", "running", 0, 5),
                CopyStatus("0_1", "active", "restoring", 25, 75, 9_000),
                CopyStatus("0_2", "standby", "running", 3),
                CopyStatus("0_3", "warm-up", "created", None),
            ),
        ),
    )


def test_should_take_counts_from_the_instance_and_name_it_by_its_process() -> None:
    status = {
        "threads": [{"name": "a-t0", "state": "running", "tasks": [], "processed": 9, "dropped": 4, "passed_over": 2}]
    }
    seen = view(member("a-t0"))
    rows = thread_rows(seen, {ENDPOINT: status})
    assert rows == (ThreadRow(ENDPOINT, "a-t0", "running", (), 9, 4, 2),)
    of_group = GroupStatus("app", seen, rows)
    assert [of_group.instance_of(each) for each in ("process", "0123456789ab-gone")] == [ENDPOINT, "01234567"]


@pytest.mark.parametrize(
    "endpoint,statuses,state",
    [(ENDPOINT, {}, "no answer"), (ENDPOINT, {ENDPOINT: {"threads": []}}, "no answer"), (None, {}, "")],
)
def test_should_show_what_the_coordinator_knows_when_the_instance_says_nothing(
    endpoint: str | None, statuses: dict[str, Any], state: str
) -> None:
    lags = {("0_0", "a-t0-id"): -2, ("0_1", "a-t0-id"): 40, ("0_2", "a-t0-id"): 0}
    seen = view(
        member("b-t0", endpoint=endpoint),
        member("a-t0", endpoint=endpoint, active=("0_0", "0_1"), standby=("0_2",), warm_up=("0_3",)),
        lags=lags,
        left_ms={("0_1", "a-t0-id"): 4_000},
    )
    copies = (
        CopyStatus("0_0", "active", "running", 0),
        CopyStatus("0_1", "active", "", 40, left_ms=4_000),
        CopyStatus("0_2", "standby", "", 0),
        CopyStatus("0_3", "warm-up", "", None),
    )
    instance = endpoint or "process"
    assert thread_rows(seen, statuses) == (
        ThreadRow(instance, "a-t0", state, copies),
        ThreadRow(instance, "b-t0", state, ()),
    )


@pytest.mark.parametrize(
    "copy,percent",
    [
        (CopyStatus("0_0", "active", "restoring", 25, 75), 75),
        (CopyStatus("0_0", "active", "restoring", 0, 0), 0),
        (CopyStatus("0_0", "active", "restoring", None, 75), None),
        (CopyStatus("0_0", "active", "running", 0, 75), None),
        (CopyStatus("0_0", "standby", "running", 25, 75), None),
    ],
)
def test_should_tell_how_much_is_restored_of_an_active_task_that_restores(
    copy: CopyStatus, percent: int | None
) -> None:
    assert copy.restore_percent == percent
