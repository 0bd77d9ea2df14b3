"""What the forms of the lever page ask for, as events of the group: the same ones as the calls below /v1 make.

A form that cannot be read raises InputError, whose `where` is the id of the field that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX
from coordinator_api.group import events
from coordinator_api.group.group_levers import LeverName
from coordinator_api.http.models.lever_models import LONGEST_HOLD_MS, SHORTEST_HOLD_MS

INSTANCE, MEMBER = "instance", "member"
"""What a form names before the id of who is drained, with a colon between."""

_MINUTE_MS, _SECOND_MS = 60_000, 1_000
_LONGEST_GRACE_MS = 3_600_000


class LeverForm(NamedTuple):
    """One form as it was sent. `by`: who sent it. `reason`: None for none."""

    fields: Mapping[str, str]
    by: str
    reason: str | None


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
    return events.SetLever(LeverName.HOLD, True, form.by, form.reason, limit_ms)


def _discard(form: LeverForm) -> events.Event:
    if form.reason is None:
        raise InputError("say why it is discarded, for those who find it in the history", "discard-reason")
    return events.DecideHeldRebalance(False, _generation(form), form.by, form.reason)


def _grace(form: LeverForm) -> events.Event:
    grace_ms = _number(form, "grace-seconds", _SECOND_MS, _SECOND_MS, _LONGEST_GRACE_MS, "seconds")
    return events.SetLever(LeverName.REJOIN_GRACE, True, form.by, form.reason, grace_ms)


def _stop_all(form: LeverForm) -> events.Event:
    if form.fields.get("sure") != "yes":
        raise InputError("tick the box first: the whole application stops", "sure")
    return events.Drain()


EVENTS: Mapping[str, Callable[[LeverForm], events.Event]] = {
    "approve": lambda form: events.DecideHeldRebalance(True, _generation(form), form.by, form.reason),
    "discard": _discard,
    "hold": _hold,
    "hold-off": lambda form: events.SetLever(LeverName.HOLD, False, form.by, form.reason),
    "drain": lambda form: events.SetInstanceDrain(True, *_target(form), form.by, form.reason),
    "drain-end": lambda form: events.SetInstanceDrain(False, *_target(form)),
    "grace": _grace,
    "grace-off": lambda form: events.SetLever(LeverName.REJOIN_GRACE, False, form.by, form.reason),
    "promote": lambda form: events.SetLever(LeverName.PROMOTION, True, form.by, form.reason),
    "promote-off": lambda form: events.SetLever(LeverName.PROMOTION, False, form.by, form.reason),
    "pause": lambda form: events.SetLever(LeverName.PAUSE, True, form.by, form.reason),
    "resume": lambda form: events.SetLever(LeverName.PAUSE, False, form.by, form.reason),
    "rebalance": lambda form: events.RequestRebalance(form.reason),
    "stop-all": _stop_all,
}
"""By the name that a form sends as `lever`."""

LABELS: Mapping[str, str] = {
    "hold-minutes": "Minutes to wait at most",
    "grace-seconds": "Seconds to wait",
    "target": "Instance or member",
    "sure": "The box",
    "generation": "The rebalance that waits",
    **{f"{lever}-reason": "Reason" for lever in EVENTS},
}
"""What the page calls a field, by its id."""
