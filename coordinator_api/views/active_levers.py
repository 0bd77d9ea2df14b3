"""The levers of a group, its drained instances, and the rebalance that waits for approval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from assignor.types import TaskId
from rebalance_analysis.presentation.quantities import counted, duration_text, task_ranges

DONE: Mapping[str, str] = {
    "approve": "the rebalance is carried out",
    "discard": "the rebalance is discarded; tasks stay where they are",
    "hold": "rebalances that move tasks now wait for approval",
    "hold-off": "rebalances do not wait any more",
    "drain": "the drain has begun; the table says when it is safe to stop",
    "drain-end": "the drain has ended, and tasks may come again",
    "grace": "tasks of members that leave now wait for them",
    "grace-off": "tasks of members that leave go to others at once",
    "promote": "the next rebalance comes as soon as the warm-ups have caught up",
    "promote-off": "the next rebalance comes at the probing deadline",
    "pause": "members process nothing until it is resumed",
    "resume": "members go on",
    "rebalance": "a rebalance starts",
    "stop-all": "the coordinator tells every member to stop",
}
"""What has happened when the group has accepted an operator's command, by the command's name on the page."""


class ActiveLever(NamedTuple):
    """A lever that is on. `effect`: a sentence without a full stop. `by`, `reason`: None when they are not known."""

    name: str
    effect: str
    by: str | None
    at_ms: int
    reason: str | None


EFFECTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "hold": lambda lever: f"rebalances that move tasks wait {duration_text(lever['time_limit_ms'])} for approval",
    "rejoin_grace": lambda lever: f"tasks of members that leave wait {duration_text(lever['grace_ms'])} for them",
    "promotion": lambda lever: "a rebalance comes as soon as warm-ups have caught up",
    "pause": lambda lever: "members process no records",
}
"""What a lever does while it is on, by its name in the group's document, of the lever there."""


def active_levers(levers: Mapping[str, Any], names: Mapping[str, str] | None = None) -> list[ActiveLever]:
    """`levers`: of a group's document. `names`: of instances, by process id."""
    found = [
        ActiveLever(name, effect(lever), lever["by"], lever["at_ms"], lever["reason"])
        for name, effect in EFFECTS.items()
        if (lever := levers[name]) is not None
    ]
    for each in levers["drained"]:
        process, member = each["process_id"], each["member_id"]
        target = f"member {member}" if member else f"instance {(names or {}).get(process, process)}"
        found.append(ActiveLever("drained", f"{target} is to have no tasks", each["by"], each["at_ms"], each["reason"]))
    return found


def missing_of_drain(drain: Mapping[str, Any]) -> list[str]:
    """A line for each thing that a drain still waits for; empty when it is safe to stop."""
    return [f"{each['task']}: {each['why']}" if each["task"] else str(each["why"]) for each in drain["missing"]]


def moves_of_held(held: Mapping[str, Any]) -> str:
    """`2 tasks would move: 0_0, 0_3`. `held`: of a group's document."""
    tasks = held["tasks_to_move"]
    if not tasks:
        return "no task would move"
    return f"{counted(len(tasks), 'task')} would move: {task_ranges([TaskId.parse(task) for task in tasks])}"
