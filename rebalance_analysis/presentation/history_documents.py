"""Converts the history of a group or of one task to a JSON document. `history_rows` formats these histories as text."""

from assignor.recording.documents import document_of, document_of_fields
from rebalance_analysis.history import GroupHistory, RebalanceFacts, TaskHistory
from rebalance_analysis.history.group_history import Move


def history_document(group_id: str, history: GroupHistory | TaskHistory) -> dict[str, object]:
    """Returns the history of a group or of a task as a JSON document. Times are in milliseconds. Lags are in records;
    -2 means a running active task, and -3 means that the lag is not known.
    """
    if isinstance(history, TaskHistory):
        return {
            "group_id": group_id,
            "task": str(history.task),
            "rounds": [
                {
                    **_facts(each.facts),
                    **document_of_fields(each, "change", "before", "copies", "outcome", "reason"),
                    "differs_from_recorded": each.differs,
                    "waiting": document_of(each.waiting),
                }
                for each in history.rebalances
            ],
            "summary": document_of(history.summary),
        }
    return {
        "group_id": group_id,
        "rounds": [
            {
                **_facts(each.facts),
                **document_of_fields(each, "processes", "tasks"),
                "moves": [_move(move) for move in each.moves],
                **document_of_fields(each, "handed_over", "held_back", "standbys", "warm_ups"),
                "differing_from_recorded": each.differing,
            }
            for each in history.rebalances
        ],
        "summary": {"moves": history.moves},
    }


def _move(move: Move) -> dict[str, object]:
    return {
        "task": str(move.task),
        "from": document_of(move.giver),
        "to": document_of(move.receiver),
        "held_back": move.held_back,
    }


def _facts(facts: RebalanceFacts) -> dict[str, object]:
    return {
        "generation_id": facts.generation,
        **document_of_fields(facts, "id", "now_ms", "since_previous_ms"),
        "generations_not_recorded": facts.not_recorded,
        "generations_interrupted": facts.interrupted,
        **document_of_fields(facts, "triggers", "note", "led_by", "error"),
        "followup_rebalance": facts.followup,
        "probing_rebalance_at_ms": facts.probing_at_ms,
    }
