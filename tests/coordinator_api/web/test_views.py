"""What pages show, made of documents."""

from typing import Any

import pytest

from coordinator_api.http.models.group_models import UnreadableGroupLine
from coordinator_api.views import ActiveLever, active_levers, count, sentence
from coordinator_api.web.group_summaries import GroupSummary, SummarizedLine, SummarizedList
from coordinator_api.web.groups_page import GroupsShown, chosen
from coordinator_api.web.rendering import Badge, state_badge
from rebalance_analysis.presentation.quantities import clock_duration


def entry(group_id: str, **changes: object) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "state": "Stable",
        "generation_id": 3,
        "members": 2,
        "draining": False,
        "probing_rebalance_at_ms": None,
        "error": None,
        "led_by": None,
        "condition": None,
        "notices": 0,
        **changes,
    }


def row(group_id: str, lag: int | None = None, **changes: object) -> SummarizedLine:
    return SummarizedLine(**entry(group_id, **changes), lag=lag)


def listed_groups(
    rows: list[SummarizedLine], unreadable: list[UnreadableGroupLine], query: str, sort: str = "", order: str = ""
) -> GroupsShown:
    return chosen(SummarizedList(groups=rows, unreadable=unreadable), query, sort, order)


def shown(found: GroupsShown) -> list[str]:
    return [each.group_id for each in found.rows]


@pytest.mark.parametrize(
    "ms, said",
    [
        (-5, "0 s"),
        (0, "0 s"),
        (999, "0 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (3_605_000, "1 h"),
        (90_061_000, "1 d 1 h"),
    ],
)
def test_should_say_how_long_something_takes(ms: int, said: str) -> None:
    assert clock_duration(ms).replace("\u00a0", " ") == said


def test_should_say_counts() -> None:
    assert (count(None), count(7), count(1_234_567)) == ("–", "7", "1,234,567")


def test_should_sum_up_a_group() -> None:
    copies = [
        {"task": "0_0", "role": "active", "member_id": "a", "lag": -2},
        {"task": "0_1", "role": "active", "member_id": "a", "lag": 700},
        {"task": "0_2", "role": "active", "member_id": "b", "lag": -2},
        {"task": "1_0", "role": "active", "member_id": "a", "lag": None},
        {"task": "0_0", "role": "warm-up", "member_id": "b", "lag": 300},
        {"task": "0_3", "role": "standby", "member_id": "a", "lag": 0},
    ]
    members = [{"member_id": "a", "fetched": True}, {"member_id": "b", "fetched": False}]

    found = GroupSummary.of({"members": members, "tasks": copies, "advice": "Do something."})

    assert found == GroupSummary(tasks_running=2, tasks=5, lag=1_000, advice="Do something."), (
        "0_1 is being restored, 0_2 has not been fetched, and 0_3 has no owner"
    )


def test_should_count_the_tasks_that_members_go_on_with_while_a_rebalance_waits() -> None:
    document = {
        "members": [{"member_id": "a", "fetched": False}],
        "tasks": [{"task": "0_0", "role": "active", "member_id": "a", "lag": -2}],
        "advice": None,
    }

    assert GroupSummary.of({**document, "held_rebalance": {"generation_id": 2}}).tasks_running == 1
    assert GroupSummary.of({**document, "held_rebalance": None}).tasks_running == 0


def test_should_count_tasks_that_nobody_has_and_not_know_a_lag_of_which_nothing_is_said() -> None:
    stateless = {"task": "0_0", "role": "active", "member_id": "a", "lag": None}
    caught_up = {"task": "0_1", "role": "active", "member_id": "a", "lag": -2}
    document = {"members": [{"member_id": "a", "fetched": True}], "tasks": [stateless], "advice": None}

    assert (GroupSummary.of(document, 8).tasks, GroupSummary.of(document, None).tasks) == (8, 1)
    assert GroupSummary.of(document).lag is None
    assert GroupSummary.of({**document, "tasks": [stateless, caught_up]}).lag == 0


@pytest.mark.parametrize("sort, order, expected", [
    ("", "", ["a", "b", "c"]),
    ("group", "desc", ["c", "b", "a"]),
    ("lag", "", ["c", "a", "b"]),
    ("lag", "desc", ["a", "c", "b"]),
    ("members", "desc", ["b", "a", "c"]),
    ("probing", "", ["b", "a", "c"]),
    ("nonsense", "sideways", ["a", "b", "c"]),
])  # fmt: skip
def test_should_sort_by_each_column_with_what_is_not_known_last(sort: str, order: str, expected: list[str]) -> None:
    rows = [row("c", lag=5), row("a", lag=900), row("b", members=9, probing_rebalance_at_ms=1)]

    assert shown(listed_groups(rows, [], "", sort, order)) == expected


@pytest.mark.parametrize(
    "query, expected",
    [
        ("PAY", ["payments"]),
        ("stable pay", ["payments"]),
        ("topics", ["orders"]),
        ("led kafka", ["jvm"]),
        ("ﬀ", []),
        ("  ", ["jvm", "orders", "payments"]),
    ],
)
def test_should_find_words_in_name_state_and_notes(query: str, expected: list[str]) -> None:
    rows = [row("payments"), row("orders", condition="MISSING_SOURCE_TOPICS"), row("jvm", led_by="kafka")]

    assert shown(listed_groups(rows, [], query)) == expected


def test_should_find_groups_that_cannot_be_read() -> None:
    found = listed_groups([row("a")], [UnreadableGroupLine(group_id="b", reason="record 3 is no JSON")], "unreadable")

    assert (shown(found), [each.group_id for each in found.unreadable], found.total) == ([], ["b"], 2)


def test_should_say_what_to_do_about_a_group() -> None:
    failed = row("a", error="TaskAssignmentException: no", notices=2)
    advised = row("a", error="X: no", advice="Create the topic.")

    assert failed.notes == [
        "The last rebalance failed: TaskAssignmentException: no.",
        "Its instances have 2 things to tell.",
    ]
    assert advised.notes == ["Create the topic."]


@pytest.mark.parametrize("state, condition, draining, badge", [
    ("Stable", None, False, Badge("Stable", "good")),
    ("Stable", "NO_TASKS", False, Badge("Stable", "warn", "has no tasks")),
    ("Stable", None, True, Badge("Stable", "warn", "members are told to stop")),
    ("PreparingRebalance", None, False, Badge("PreparingRebalance", "busy")),
    ("Empty", None, False, Badge("Empty", "idle")),
    ("Unheard", "UNHEARD", False, Badge("Unheard", "warn", "UNHEARD")),
])  # fmt: skip
def test_should_show_a_state_as_word_and_shape(state: str, condition: str | None, draining: bool, badge: Badge) -> None:
    assert state_badge(state, condition, draining=draining) == badge


def test_should_name_each_lever_that_is_on() -> None:
    who = {"by": "olga", "at_ms": 5, "reason": "an upgrade"}
    levers = {
        "hold": {"time_limit_ms": 600_000, **who},
        "rejoin_grace": None,
        "promotion": None,
        "pause": who,
        "drained": [{"process_id": "p", "member_id": None, **who}, {"process_id": "p", "member_id": "m", **who}],
    }

    assert active_levers(levers, {"p": "node-1"}) == [
        ActiveLever("hold", "rebalances that move tasks wait 10 min for approval", "olga", 5, "an upgrade"),
        ActiveLever("pause", "members process no records", "olga", 5, "an upgrade"),
        ActiveLever("drained", "instance node-1 is to have no tasks", "olga", 5, "an upgrade"),
        ActiveLever("drained", "member m is to have no tasks", "olga", 5, "an upgrade"),
    ]


def test_should_make_a_sentence_of_a_problem() -> None:
    assert sentence("there is no group x") == "There is no group x."
    assert sentence("num.standby.replicas must be a number") == "num.standby.replicas must be a number."
