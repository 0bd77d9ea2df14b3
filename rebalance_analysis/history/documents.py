"""Histories as JSON documents."""

from __future__ import annotations

from collections.abc import Iterable

from assignor.types import ProcessId
from rebalance_analysis.history.group_history import GroupHistory
from rebalance_analysis.history.past_rebalance import RebalanceFacts
from rebalance_analysis.history.recorded_copies import PlacedCopy
from rebalance_analysis.history.task_history import TaskHistory, TaskWaiting


def task_history_document(group_id: str, history: TaskHistory) -> dict[str, object]:
    """Times in milliseconds, lags in records: -2 for a running active task, -3 when not known."""
    summary = history.summary
    return {
        "group_id": group_id,
        "task": str(history.task),
        "rounds": [
            {
                **_facts(each.facts),
                "change": str(each.change),
                "before": _copies(each.before),
                "copies": _copies(each.copies),
                "outcome": None if each.outcome is None else str(each.outcome),
                "reason": each.reason,
                "differs_from_recorded": each.differs,
                "waiting": _waiting(each.waiting),
            }
            for each in history.rebalances
        ],
        "summary": {
            "moves": summary.moves,
            "warm_up_rounds": summary.warm_up_rounds,
            "without_owner_ms": summary.without_owner_ms,
            "without_owner_since_ms": summary.without_owner_since_ms,
            "copies": _copies(summary.copies),
            "waiting": _waiting(summary.waiting),
        },
    }


def group_history_document(group_id: str, history: GroupHistory) -> dict[str, object]:
    """Every move of every rebalance."""
    return {
        "group_id": group_id,
        "rounds": [
            {
                **_facts(each.facts),
                "processes": each.processes,
                "tasks": each.tasks,
                "moves": [
                    {
                        "task": str(move.task),
                        "from": _process(move.giver),
                        "to": _process(move.receiver),
                        "held_back": move.held_back,
                    }
                    for move in each.moves
                ],
                "handed_over": each.handed_over,
                "held_back": each.held_back,
                "standbys": each.standbys,
                "warm_ups": each.warm_ups,
                "differing_from_recorded": each.differing,
            }
            for each in history.rebalances
        ],
        "summary": {"moves": history.moves},
    }


def _facts(facts: RebalanceFacts) -> dict[str, object]:
    return {
        "generation_id": facts.generation,
        "id": facts.id,
        "now_ms": facts.now_ms,
        "since_previous_ms": facts.since_previous_ms,
        "generations_not_recorded": facts.not_recorded,
        "generations_interrupted": facts.interrupted,
        "triggers": [
            {
                "kind": str(trigger.kind),
                "process": _process(trigger.process),
                "names": list(trigger.names),
                "before": trigger.before,
                "after": trigger.after,
            }
            for trigger in facts.triggers
        ],
        "note": facts.note,
        "led_by": facts.led_by,
        "error": facts.error,
        "followup_rebalance": facts.followup,
        "probing_rebalance_at_ms": facts.probing_at_ms,
    }


def _copies(copies: Iterable[PlacedCopy]) -> list[dict[str, object]]:
    return [
        {
            "role": str(copy.role),
            "process": str(copy.process),
            "member": copy.member,
            "name": copy.name,
            "lag": copy.lag,
            "held_back": copy.held_back,
        }
        for copy in copies
    ]


def _waiting(waiting: TaskWaiting | None) -> dict[str, object] | None:
    if waiting is None:
        return None
    return {
        "kind": str(waiting.kind),
        "process": _process(waiting.process),
        "member": waiting.member,
        "lag": waiting.lag,
        "next_round_ms": waiting.next_round_ms,
    }


def _process(process: ProcessId | None) -> str | None:
    return None if process is None else str(process)
