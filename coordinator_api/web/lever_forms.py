"""What the forms of the lever page ask for, as events of the group: the same ones as the calls below /v1 make.

A form that cannot be read raises InputError, whose `where` is the id of the field that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX
from coordinator_api.group import events
from coordinator_api.http.models.levers import LONGEST_HOLD_MS, SHORTEST_HOLD_MS

INSTANCE, MEMBER = "instance", "member"
"""What a form names before the id of who is drained, with a colon between."""

_MINUTE_MS, _SECOND_MS = 60_000, 1_000
_LONGEST_GRACE_MS = 3_600_000


class LeverForm(NamedTuple):
    """One form as it was sent. `by`: who sent it. `reason`: None for none."""

    fields: Mapping[str, str]
    by: str
    reason: str | None


class Lever(NamedTuple):
    """`done`: what has happened when the group has accepted it."""

    event: Callable[[LeverForm], events.Event]
    done: str


def _number(form: LeverForm, field: str, unit_ms: int, least_ms: int, most_ms: int, what: str) -> int:
    """In milliseconds."""
    text = form.fields.get(field, "").strip()
    least, most = max(1, least_ms // unit_ms), most_ms // unit_ms
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not least <= int(text) <= most:
        raise InputError(f"must be a whole number of {what} from {least} to {most:,}, not {text or 'empty'}", field)
    return int(text) * unit_ms


def _generation(form: LeverForm) -> int | None:
    text = form.fields.get("generation", "")
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= JAVA_INT_MAX:
        return int(text)
    raise InputError("names no rebalance: load the page again", "generation")


def _target(form: LeverForm) -> tuple[str | None, str | None]:
    """The process id, or the member id."""
    kind, _, one = form.fields.get("target", "").partition(":")
    if not one or kind not in (INSTANCE, MEMBER):
        raise InputError("choose the instance or the member that is to be drained", "target")
    return (one, None) if kind == INSTANCE else (None, one)


def _hold(form: LeverForm) -> events.Event:
    limit_ms = _number(form, "hold-minutes", _MINUTE_MS, SHORTEST_HOLD_MS, LONGEST_HOLD_MS, "minutes")
    return events.SetHold(limit_ms, form.by, form.reason)


def _discard(form: LeverForm) -> events.Event:
    if form.reason is None:
        raise InputError("say why it is discarded, for those who find it in the history", "discard-reason")
    return events.DiscardRebalance(_generation(form), form.by, form.reason)


def _grace(form: LeverForm) -> events.Event:
    grace_ms = _number(form, "grace-seconds", _SECOND_MS, _SECOND_MS, _LONGEST_GRACE_MS, "seconds")
    return events.SetRejoinGrace(grace_ms, form.by, form.reason)


def _stop_all(form: LeverForm) -> events.Event:
    if form.fields.get("sure") != "yes":
        raise InputError("tick the box first: the whole application stops", "sure")
    return events.Drain()


LEVERS: Mapping[str, Lever] = {
    "approve": Lever(
        lambda form: events.ApproveRebalance(_generation(form), form.by, form.reason), "The rebalance is carried out."
    ),
    "discard": Lever(_discard, "The rebalance is discarded. Every task stays where it is."),
    "hold": Lever(_hold, "Rebalances that move tasks now wait for approval."),
    "hold-off": Lever(lambda form: events.EndHold(form.by, form.reason), "Rebalances do not wait any more."),
    "drain": Lever(
        lambda form: events.DrainInstance(*_target(form), form.by, form.reason),
        "The drain has begun. The table says when it is safe to stop.",
    ),
    "drain-end": Lever(
        lambda form: events.EndInstanceDrain(*_target(form)), "The drain has ended: it may have tasks again."
    ),
    "grace": Lever(_grace, "Tasks of members that leave now wait for them."),
    "grace-off": Lever(
        lambda form: events.SetRejoinGrace(None, form.by, form.reason), "Tasks wait for no member that leaves."
    ),
    "promote": Lever(
        lambda form: events.SetPromotion(True, form.by, form.reason),
        "The next rebalance comes as soon as warm-ups have caught up.",
    ),
    "promote-off": Lever(
        lambda form: events.SetPromotion(False, form.by, form.reason),
        "The next rebalance comes at the probing deadline.",
    ),
    "pause": Lever(
        lambda form: events.SetPause(True, form.by, form.reason),
        "The group is paused. Members hear of it with their next heartbeat.",
    ),
    "resume": Lever(lambda form: events.SetPause(False, form.by, form.reason), "Members go on."),
    "rebalance": Lever(lambda form: events.RequestRebalance(form.by, form.reason), "A rebalance has begun."),
    "stop-all": Lever(_stop_all, "Every member is told to stop with its next heartbeat."),
}
"""By the name that a form sends as `lever`."""

LABELS: Mapping[str, str] = {
    "hold-minutes": "Minutes to wait at most",
    "grace-seconds": "Seconds to wait",
    "target": "Instance or member",
    "sure": "The box",
    "generation": "The rebalance that waits",
    **{f"{lever}-reason": "Reason" for lever in LEVERS},
}
"""What the page calls a field, by its id."""
