"""Which answers to heartbeats become news for a member, and which are too old to count."""

from __future__ import annotations

import pytest

from streams_runtime.membership.coordinator_client import HeartbeatReply
from streams_runtime.membership.coordinator_errors import IllegalGeneration, RebalanceInProgress, UnknownMemberId
from streams_runtime.membership.group_standing import GroupStanding, News, PendingHeartbeat

REJOIN = HeartbeatReply("PreparingRebalance", rejoin=True, stop=False)
QUIET = HeartbeatReply("Stable", rejoin=False, stop=False)
STOP = HeartbeatReply("Stable", rejoin=False, stop=True)


def settled_member() -> GroupStanding:
    standing = GroupStanding()
    standing.joining()
    standing.joined("m")
    standing.assigned(1)
    return standing


def heartbeat_of(standing: GroupStanding) -> PendingHeartbeat:
    heartbeat = standing.next_heartbeat()
    assert heartbeat is not None
    return heartbeat


def test_should_ask_nothing_before_the_first_join_and_after_leaving() -> None:
    standing = GroupStanding()
    assert standing.next_heartbeat() is None
    standing.joining()
    assert standing.next_heartbeat() is None
    standing.joined("m")
    assert heartbeat_of(standing).generation_id == 0
    assert standing.leaving() == "m"
    assert standing.next_heartbeat() is None
    assert standing.leaving() is None, "a member leaves once"


@pytest.mark.parametrize(
    "answer,news",
    [
        (QUIET, News()),
        (REJOIN, News(rejoin=True)),
        (STOP, News(stop=True)),
        (RebalanceInProgress("REBALANCE_IN_PROGRESS", 409, ""), News(rejoin=True)),
    ],
)
def test_should_become_news_when_the_standing_is_the_same(
    answer: HeartbeatReply | RebalanceInProgress, news: News
) -> None:
    standing = settled_member()
    standing.hear(heartbeat_of(standing), answer)
    assert standing.has_news() == bool(news)
    assert standing.take_news() == news
    assert not standing.has_news()


@pytest.mark.parametrize("joined", [False, True])
def test_should_not_count_when_a_subscription_was_sent_between_question_and_answer(joined: bool) -> None:
    standing = settled_member()
    heartbeat = heartbeat_of(standing)
    standing.joining()
    if joined:
        standing.joined("m")
    standing.hear(heartbeat, REJOIN)
    standing.hear(heartbeat, UnknownMemberId("UNKNOWN_MEMBER_ID", 404, ""))
    assert not standing.has_news()


def test_should_not_count_when_asked_while_the_subscription_was_under_way() -> None:
    standing = settled_member()
    standing.joining()
    heartbeat = heartbeat_of(standing)
    standing.joined("m")
    standing.hear(heartbeat, REJOIN)
    assert not standing.has_news()


def test_should_forget_the_call_to_rejoin_but_not_to_stop_when_it_joins() -> None:
    standing = settled_member()
    standing.hear(heartbeat_of(standing), REJOIN)
    standing.hear(heartbeat_of(standing), STOP)
    standing.joining()
    assert standing.take_news() == News(stop=True)


def test_should_hear_of_lost_tasks_even_when_a_join_was_under_way() -> None:
    standing = settled_member()
    standing.tasks_were_lost("migrated")
    standing.joining()
    standing.joined("m")
    assert standing.take_news() == News(lost="migrated"), "its subscription may have claimed what is lost"


def test_should_rejoin_when_its_holder_asks_for_it_after_the_subscription_was_written() -> None:
    standing = settled_member()
    standing.ask_to_rejoin()
    standing.joining()
    assert not standing.has_news(), "the subscription that follows answers it"
    standing.ask_to_rejoin()
    standing.joined("m")
    assert standing.take_news() == News(rejoin=True)


def test_should_bear_an_illegal_generation_only_while_an_assignment_is_under_way() -> None:
    refusal = IllegalGeneration("ILLEGAL_GENERATION", 409, "")
    standing = settled_member()
    standing.joining()
    standing.joined("m")
    standing.hear(heartbeat_of(standing), refusal)
    assert not standing.has_news(), "the group is ahead, the assignment is on its way"
    behind = heartbeat_of(standing)
    standing.assigned(2)
    standing.hear(behind, refusal)
    assert not standing.has_news(), "asked before the assignment came"
    standing.hear(heartbeat_of(standing), refusal)
    assert standing.take_news() == News(refused=refusal)


def test_should_start_over_when_the_group_has_forgotten_it() -> None:
    standing = settled_member()
    standing.forget_generation()
    assert (heartbeat_of(standing).member_id, heartbeat_of(standing).generation_id) == ("m", 0)
    standing.forget_member()
    assert standing.next_heartbeat() is None
    assert standing.leaving() is None
