"""What a group's page says beside its head: how the last rebalance ended, what instances tell, what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_api.web.views.states import cause_in_words

_OUTCOMES = {
    "stable": "Nothing more is due.",
    "follow-up": "A member had to give up tasks first, so another rebalance followed at once.",
    "probing": "Tasks are to move once their next owners have caught up. A probing rebalance looks whether they have.",
    "settled": "The leader asked for a follow-up that would change nothing, so none was started.",
    "error": "It failed. Members have no tasks from it.",
}


@dataclass(frozen=True, slots=True)
class EndedRebalance:
    """`at_ms`: None when it is not recorded."""

    generation_id: int
    reason: str
    outcome: str
    meaning: str
    at_ms: int | None
    missing_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A notice: what an instance says of itself, `times` times."""

    instance: str
    text: str
    times: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """`not_known`: sentences; empty for a group that is led here. `is_settled`: no follow-up comes."""

    last: EndedRebalance | None
    notices: tuple[NoticeRow, ...]
    not_known: tuple[str, ...]
    failing_cluster: str | None

    @classmethod
    def of(
        cls, document: Mapping[str, Any], names: Mapping[str, str], last_listed: Mapping[str, Any] | None
    ) -> GroupFacts:
        """`document`: as `GET /v1/groups/{group}` answers it. `names`: of instances, by process id. `last_listed`: the
        newest entry of the recorded rebalances.
        """
        return cls(
            _last(document["last_rebalance"], last_listed),
            tuple(
                NoticeRow(names.get(each["process_id"], each["process_id"]), each["text"], each["count"], each["at_ms"])
                for each in document["notices"]
            ),
            _not_known(document),
            _failing(document["cluster"]),
        )


def _last(last: Mapping[str, Any] | None, listed: Mapping[str, Any] | None) -> EndedRebalance | None:
    if last is None:
        return None
    is_it = listed is not None and listed["generation_id"] == last["generation_id"]
    return EndedRebalance(
        last["generation_id"],
        cause_in_words(last["reason"] or "a reason that is not known"),
        last["outcome"],
        _OUTCOMES.get(last["outcome"], ""),
        listed["now_ms"] if listed is not None and is_it else None,
        tuple(last["missing_topics"]),
    )


def _not_known(document: Mapping[str, Any]) -> tuple[str, ...]:
    if document["led_by"] is None:
        return ()
    return (
        "Lags are those of the last rebalance that was reported, not of now.",
        "Whether members are alive, and whether they have fetched their tasks, is known to their leader alone.",
        "How fast copies are restored is not known.",
    )


def _failing(cluster: Mapping[str, Any] | None) -> str | None:
    if cluster is None or cluster["error"] is None:
        return None
    return f"The cluster does not answer, so lags are not known: {cluster['error']}"
