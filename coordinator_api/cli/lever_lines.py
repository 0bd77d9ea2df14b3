"""What `assignor groups describe` says of levers: a line for each that is pulled, with who, when and why."""

from __future__ import annotations

from typing import Any

from assignor.commands.tables import View, age_text
from assignor.story.words import duration


def levers_in_words(levers: Any, view: View) -> list[tuple[str, str, bool]]:
    """Name, what it does, and that it holds. `levers`: of a group's document; None from an older service."""
    if levers is None:
        return []
    told: list[tuple[str, str, Any]] = []
    if levers["hold"]:
        time_limit = duration(levers["hold"]["time_limit_ms"])
        told.append(("hold", f"rebalances that move tasks wait {time_limit} for approval", levers["hold"]))
    if levers["rejoin_grace"]:
        grace = duration(levers["rejoin_grace"]["grace_ms"])
        told.append(("rejoin grace", f"tasks wait {grace} for members that left", levers["rejoin_grace"]))
    if levers["promotion"]:
        told.append(("promotion", "a rebalance comes as soon as warm-ups have caught up", levers["promotion"]))
    if levers["pause"]:
        told.append(("paused", "members process no records", levers["pause"]))
    drained = levers["drained"]
    told += [("drained", f"{each['member_id'] or each['process_id']} is to have no tasks", each) for each in drained]
    return [(name, f"{text}; set {_said(lever, view)}", True) for name, text, lever in told]


def held_line(held: Any, view: View) -> list[tuple[str, str, bool]]:
    """As `levers_in_words`, of the rebalance that waits; `held`: None for none, and from an older service."""
    return [] if held is None else [("held", f"{held_in_words(held, view)}; it waits since {_ago(held, view)}", True)]


def _ago(held: Any, view: View) -> str:
    return f"{age_text(held['since_ms'], view.now_ms)} ago"


def held_in_words(held: Any, view: View) -> str:
    """`held`: a rebalance that waits, as in a group's document."""
    left_ms = held["until_ms"] - view.now_ms
    until = f"for {duration(left_ms)} more" if left_ms > 0 else "no more"
    moved = len(held["tasks_to_move"])
    tasks = "1 task would move" if moved == 1 else f"{moved:,} tasks would move"
    return f"a rebalance (generation {held['generation_id']}) waits for approval {until}: {tasks}"


def drain_in_words(group: str, drain: Any) -> str:
    """`drain`: as `GET .../drain` answers it."""
    target = drain["member_id"] or drain["process_id"]
    if drain["safe_to_stop"]:
        return f"{group}: {target} has no active tasks, and can be stopped"
    missing = [f"  {each['task'] + ': ' if each['task'] else ''}{each['why']}" for each in drain["missing"]]
    return "\n".join([f"{group}: {target} is being drained; do not stop it yet", *missing])


def _said(lever: Any, view: View) -> str:
    """`3m ago by ada at 10.0.0.7: the disk is replaced`"""
    why = f": {lever['reason']}" if lever["reason"] else ""
    return f"{age_text(lever['at_ms'], view.now_ms)} ago by {lever['by'] or 'somebody'}{why}"
