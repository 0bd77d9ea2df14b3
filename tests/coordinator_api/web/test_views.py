"""What pages show, made of documents."""

from typing import Any

import pytest

from coordinator_api.http.models.group_models import HealthAnswer, UnreadableGroupLine
from coordinator_api.views import ActiveLever, active_levers, all_places, count, reason_details, reason_places, sentence
from coordinator_api.web.group_summaries import GroupSummary, SummarizedLine, SummarizedList
from coordinator_api.web.groups_page import GroupsShown, chosen
from coordinator_api.web.rendering import Badge, health_badge
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


def health(level: str, *texts: str) -> dict[str, Any]:
    """A health with a reason for each text."""
    nothing = dict.fromkeys(("action", "command", "since_ms", "last_ms", "count"))
    return {
        "level": level,
        "reasons": [{**nothing, "level": level, "code": "X", "text": text, "where": []} for text in texts],
    }


OK = health("ok")


def row(group_id: str, lag: int | None = None, **changes: object) -> SummarizedLine:
    return SummarizedLine(**{"health": OK, **entry(group_id, **changes)}, lag=lag)


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
    busy = health("busy", "Tasks that restore.")
    busy["reasons"][0] |= {"where": ["0_1"], "action": "Wait."}
    members = [{"member_id": "a", "fetched": True}, {"member_id": "b", "fetched": False}]

    found = GroupSummary.of({"members": members, "tasks": copies, "health": busy})

    assert (found.tasks_running, found.tasks, found.lag) == (2, 5, 1_000), (
        "0_1 is being restored, 0_2 has not been fetched, and 0_3 has no owner"
    )
    assert found.health is not None
    (reason,) = found.health.reasons
    assert (reason.text, reason.action, reason.where) == ("Tasks that restore.", "Wait.", []), "no list of all tasks"


def test_should_count_the_tasks_that_members_go_on_with_while_a_rebalance_waits() -> None:
    document = {
        "members": [{"member_id": "a", "fetched": False}],
        "tasks": [{"task": "0_0", "role": "active", "member_id": "a", "lag": -2}],
        "health": OK,
    }

    assert GroupSummary.of({**document, "held_rebalance": {"generation_id": 2}}).tasks_running == 1
    assert GroupSummary.of({**document, "held_rebalance": None}).tasks_running == 0


def test_should_count_tasks_that_nobody_has_and_not_know_a_lag_of_which_nothing_is_said() -> None:
    stateless = {"task": "0_0", "role": "active", "member_id": "a", "lag": None}
    caught_up = {"task": "0_1", "role": "active", "member_id": "a", "lag": -2}
    unknown = {"task": "0_1", "role": "standby", "member_id": "a", "lag": -3}
    document = {"members": [{"member_id": "a", "fetched": True}], "tasks": [stateless], "health": OK}

    assert (GroupSummary.of(document, 8).tasks, GroupSummary.of(document, None).tasks) == (8, 1)
    assert GroupSummary.of(document).lag is None
    assert GroupSummary.of({**document, "tasks": [unknown]}).lag is None
    assert GroupSummary.of({**document, "tasks": [stateless, caught_up]}).lag == 0


@pytest.mark.parametrize("sort, order, expected", [
    ("group", "", ["a", "b", "c"]),
    ("group", "desc", ["c", "b", "a"]),
    ("lag", "", ["c", "a", "b"]),
    ("lag", "desc", ["a", "c", "b"]),
    ("members", "desc", ["b", "a", "c"]),
    ("probing", "", ["b", "a", "c"]),
    ("reason", "", ["b", "a", "c"]),
    ("nonsense", "sideways", ["b", "c", "a"]),
])  # fmt: skip
def test_should_sort_by_each_column_with_what_is_not_known_last(sort: str, order: str, expected: list[str]) -> None:
    busy = row("b", members=9, probing_rebalance_at_ms=1, health=health("degraded", "It is behind."))
    rows = [row("c", lag=5, health=health("busy")), row("a", lag=900), busy]

    assert shown(listed_groups(rows, [], "", sort, order)) == expected


def test_should_list_the_worst_health_first_and_an_unknown_health_among_the_degraded() -> None:
    worse = {"c": None, "b": "degraded", "f": "of a later release", "a2": "broken", "a1": "broken"}
    levels = {"e": "ok", "d": "busy", **worse}
    rows = [row(group_id, health=level and health(level)) for group_id, level in levels.items()]

    assert shown(listed_groups(rows, [], "")) == ["a1", "a2", "b", "c", "f", "d", "e"]
    assert shown(listed_groups(rows, [], "", "health", "desc")) == ["e", "d", "b", "c", "f", "a1", "a2"]


@pytest.mark.parametrize(
    "query, expected",
    [
        ("PAY", ["payments"]),
        ("stable pay", ["payments"]),
        ("topics", ["orders"]),
        ("broken create", ["orders"]),
        ("led kafka", ["jvm"]),
        ("ﬀ", []),
        ("  ", ["jvm", "orders", "payments"]),
    ],
)
def test_should_find_words_in_name_health_state_and_reasons(query: str, expected: list[str]) -> None:
    broken = health("broken", "It is paused.", "Source topics are missing.")
    broken["reasons"][1]["action"] = "Create them."
    rows = [row("payments"), row("orders", health=broken), row("jvm", led_by="kafka")]

    assert shown(listed_groups(rows, [], query, "group")) == expected


def test_should_find_groups_that_cannot_be_read() -> None:
    found = listed_groups([row("a")], [UnreadableGroupLine(group_id="b", reason="record 3 is no JSON")], "unreadable")

    assert (shown(found), [each.group_id for each in found.unreadable], found.total) == ([], ["b"], 2)


@pytest.mark.parametrize("level, state, badge", [
    ("ok", "Stable", Badge("OK", "good", "state Stable")),
    ("busy", "PreparingRebalance", Badge("Busy", "busy", "state PreparingRebalance")),
    ("degraded", "Stable", Badge("Degraded", "warn", "state Stable")),
    ("broken", "Empty", Badge("Broken", "bad", "state Empty")),
    ("of a later release", "Stable", Badge("of a later release", "warn", "state Stable")),
    (None, "Unknown", Badge("Unknown", "warn", "its coordinator does not answer")),
    (None, "Stable", Badge("Stable", "idle")),
])  # fmt: skip
def test_should_show_a_health_as_word_and_shape(level: str | None, state: str, badge: Badge) -> None:
    document = level and health(level)

    assert health_badge(document, state) == badge
    assert health_badge(document and HealthAnswer.model_validate(document), state) == badge


def test_should_name_places_that_the_text_of_a_reason_does_not_name() -> None:
    places = [f"words-{number}" for number in range(8)]
    reason = {"text": "Not yet: words-1.", "where": places, "since_ms": 9_000, "last_ms": None}

    assert reason_places(reason) == "words-0, words-2, words-3, words-4, words-5 and 2 more"
    assert reason_details(reason, str) == f"since 9000 ago; {reason_places(reason)}"
    assert reason_details({**reason, "where": [], "since_ms": None}, str) == ""
    assert all_places(reason) == places
    assert all_places({**reason, "where": places[:3]}) == []


def test_should_name_places_once_if_the_text_lists_them() -> None:
    topics = [f"topic-{number}" for number in range(7)]
    reason = {"text": "Missing: topic-0, topic-1 and 5 more.", "where": topics, "since_ms": None, "last_ms": None}

    assert reason_places(reason) == ""
    assert reason_details(reason, str) == ""
    assert all_places(reason) == topics


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
