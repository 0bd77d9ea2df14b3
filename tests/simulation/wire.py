"""What passes between a process and a coordinator: the client's calls as events of the group, the group's answers as
the client reads them. The production code writes and reads what is behind it; only HTTP itself is left out.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator_api.group.events import Heartbeat, Join
from coordinator_api.group.outcome import JoinAnswered, MemberNews, ProcessHeartbeatAnswered, Rejected, Response
from coordinator_api.http.models.member_models import SubscriptionBody
from coordinator_api.http.problems import TITLES
from coordinator_api.lease.decisions import Elsewhere
from coordinator_client.calls import Refusal
from streams_runtime.membership import calls
from streams_runtime.membership.coordinator_client import failure
from streams_runtime.membership.member_events import SentHeartbeat

BUSY = "THROTTLING_QUOTA_EXCEEDED"


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The connection broke, or the service is overloaded, or could not store it. `retry_after_ms`: it asked for."""

    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """What the service makes of the group's answer to a join: it says besides whether the group is paused."""

    answer: JoinAnswered
    paused: bool


Answer = Response | NoAnswer | Joined | Elsewhere
Reply = Callable[[Answer], None]


def nobody_asked(_answer: Answer) -> None:
    pass


def join_event(request: calls.JoinRequest, new_member_id: str) -> Join:
    """The join as it arrives, by way of its body."""
    body = SubscriptionBody.model_validate_json(json.dumps(calls.join_body(request)))
    return Join(**dict(body), new_member_id=new_member_id)


def heartbeats(sent: Mapping[str, SentHeartbeat]) -> dict[str, Heartbeat]:
    """By member id."""
    return {key: Heartbeat(key, one.body.generation_id, one.body.task_offset_sums) for key, one in sent.items()}


def failure_of(response: Rejected | NoAnswer) -> calls.CoordinatorError | calls.CoordinatorUnavailable:
    """What the client raises."""
    if isinstance(response, Rejected):
        return _failure(str(response.code), response.detail, None)
    if response.retry_after_ms is None:
        return calls.CoordinatorUnavailable("no answer")
    return _failure(BUSY, "the coordinator is busy", response.retry_after_ms / 1000)


def heartbeat_reply(response: ProcessHeartbeatAnswered) -> calls.ProcessHeartbeatReply:
    members: dict[str, calls.HeartbeatNews | calls.CoordinatorError] = {}
    for member_id, news in response.members.items():
        if isinstance(news, MemberNews):
            members[member_id] = calls.HeartbeatNews(news.rejoin, news.stop, news.assignment_generation)
        else:
            refused = failure_of(news)
            assert isinstance(refused, calls.CoordinatorError), f"the group refuses a member for good: {refused}"
            members[member_id] = refused
    return calls.ProcessHeartbeatReply(
        str(response.state), response.generation_id, response.news, members, paused=response.paused
    )


def _failure(
    code: str, detail: str, retry_after_s: float | None
) -> calls.CoordinatorError | calls.CoordinatorUnavailable:
    status, _ = TITLES[code]
    return failure(Refusal(status, code, detail, retry_after_s))
