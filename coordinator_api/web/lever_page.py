"""`/ui/groups/{group}/levers`: forms for the operator commands. A POST of a form has the same effect as the command's
call below /v1.

If the group refuses the command, the form is shown again with the error and the typed values. If the group accepts the
command, the browser is redirected to the page. After the redirection, a reload does not send the form again. A command
that moves tasks is not carried out before a second form confirms it: the answer to the first form shows what the
command would move. An invalid form raises InputError. The attribute `where` of the error is the id of the wrong field.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import Depends, Request
from starlette.responses import Response

from assignor.errors import InputError
from coordinator_api.errors import TooManyRequests
from coordinator_api.group import events
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.health import ReasonCode
from coordinator_api.group.outcome import AssignmentStored, ComputedAgain, Rejected
from coordinator_api.http.audit import note_effect, note_lever, note_reason
from coordinator_api.http.dependencies import GroupId, TheCoordinator, caller, compute, named_router, whole_number
from coordinator_api.http.models.lever_models import LONGEST_GRACE_MS, LONGEST_HOLD_MS
from coordinator_api.http.page_computations import held_document
from coordinator_api.http.problems import PROBLEM_CODE, TITLES, Problem
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.views import ASKED, DONE, active_levers, changes_shown, names_with_ended
from coordinator_api.web.dry_run import LETS_HELD_GO_ON, dry_run, moves_tasks
from coordinator_api.web.group_documents import document_of
from coordinator_api.web.group_summaries import GroupSummary
from coordinator_api.web.rendering import page, see_other
from coordinator_api.web.sessions import checked_form
from rebalance_analysis.presentation.quantities import counted

router = named_router(include_in_schema=False)

Form = Annotated[Mapping[str, str], Depends(checked_form)]
_MOST_KEPT = 16

INSTANCE, MEMBER = "instance", "member"
"""The two kinds of targets of a drain. A form's field `target` has the value `instance:ID` or `member:ID`."""


@router.get("/ui/groups/{group}/levers")
async def levers(request: Request, group_id: GroupId) -> Response:
    """The page with the state of the levers, and with forms if the caller may send operator commands."""
    return await _shown(request, group_id, done=DONE.get(request.query_params.get("done", "")))


@router.post("/ui/groups/{group}/levers")
async def apply(request: Request, group_id: GroupId, coordinator: TheCoordinator, form: Form) -> Response:
    """Carry out the command that the form names."""
    name = form.get("lever", "")
    event_of = EVENTS.get(name)
    if event_of is None:
        raise Problem("INVALID_REQUEST", "the form names no lever of this page")
    note_effect(request, lever=name)
    typed = {f"{name}-{field}" if field == "reason" else field: value for field, value in form.items()}
    runtime = coordinator.group(group_id)
    try:
        try:
            reason = note_reason(request, form.get("reason", "").strip())
        except Problem as problem:
            raise InputError(problem.detail.partition(": ")[2], f"{name}-reason") from None
        event = event_of(LeverForm(form, caller(request), reason))
    except InputError as error:
        request.scope["state"][PROBLEM_CODE] = "INVALID_REQUEST"
        why = str(error).removeprefix(f"{error.where}: ")
        return await _shown(request, group_id, status=422, typed=typed, wrong_field=error.where, wrong=why)
    if form.get("confirmed") != "yes":
        seen = await document_of(request, group_id)
        if moves_tasks(name, event, seen.values):
            return await _asked(request, coordinator, group_id, name, form, event)
    note_lever(request, event)
    answer = await runtime.handle(event)
    if isinstance(answer, Rejected):
        request.scope["state"][PROBLEM_CODE] = answer.code.value
        return await _shown(request, group_id, status=TITLES[answer.code.value][0], typed=typed, wrong=answer.detail)
    if isinstance(answer, AssignmentStored | ComputedAgain):
        note_effect(request, generation_id=answer.generation_id)
    return see_other(request, f"/ui/groups/{quote(group_id, safe='')}/levers?{urlencode({'done': name})}")


async def _asked(
    request: Request,
    coordinator: Coordinator,
    group_id: str,
    name: str,
    form: Mapping[str, str],
    event: events.Event,
) -> Response:
    """The page that asks for the confirmation of a command, and shows what the command would move."""
    note_effect(request, asked="confirmation")
    seen = await document_of(request, group_id)
    document, names = seen.values, (await seen.grid()).names
    if name in LETS_HELD_GO_ON:
        held: HeldChanges = request.app.state.held_changes
        changes = await held.of(request, group_id, document["held_rebalance"], names)
    else:
        changes = effects_shown(await dry_run(request, coordinator, group_id, event, document), names)
    target = ""
    if isinstance(event, events.SetInstanceDrain):
        members = _member_names(document)
        target = members.get(event.member_id, event.member_id) if event.member_id else ""
        target = target or names.get(event.process_id or "", event.process_id or "")
    return page(
        request,
        "confirm",
        group_id=group_id,
        question=f"{ASKED[name]} {target}".rstrip(),
        changes=changes,
        fields={field: value for field, value in form.items() if field not in ("form_token", "confirmed")},
        waits=document["levers"]["hold"] is not None and name not in LETS_HELD_GO_ON,
    )


def effects_shown(effects: Mapping[str, Any] | None, names: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Prepares `page_computations.effects` for a page; None if a part of them could not be computed."""
    if effects is None or effects["difference"] is None or effects["forecast"] is None:
        return None
    return changes_shown({**effects, "names": names})


def _member_names(document: Mapping[str, Any]) -> dict[str, str]:
    return {each["member_id"]: each["client_id"] or each["member_id"] for each in document["members"]}


async def _shown(
    request: Request,
    group_id: str,
    *,
    status: int = 200,
    done: str | None = None,
    typed: Mapping[str, str] | None = None,
    wrong_field: str | None = None,
    wrong: str | None = None,
) -> Response:
    changes: HeldChanges = request.app.state.held_changes
    seen = await document_of(request, group_id)
    document, names = seen.values, (await seen.grid()).names
    return page(
        request,
        "levers",
        status=status,
        group=document,
        summary=GroupSummary.of(document, seen.tasks),
        # The header of this page does not list the active levers. The page has a card for each lever.
        levers=(),
        on={lever.name: lever for lever in active_levers(document["levers"])},
        names=names_with_ended(names, document["ends"]),
        cards=cards_in_order(document),
        member_names=_member_names(document),
        drainable=drainable(document, names),
        changes=await changes.of(request, group_id, document["held_rebalance"], names),
        digest=seen.digest,
        done=done,
        typed=typed or {},
        wrong_field=wrong_field,
        labels=LABELS,
        wrong=wrong,
    )


CARDS = ("waiting", "hold", "drain", "grace", "promote", "pause", "rebalance", "stop")
"""The cards of the page, in their usual order."""

_CARD_OF: Mapping[str, str] = {
    ReasonCode.HELD_REBALANCE: "waiting",
    ReasonCode.PAUSED: "pause",
    ReasonCode.REBALANCE_FAILED: "rebalance",
    ReasonCode.WARMING_UP: "promote",
}
"""The card whose lever helps against a reason for the health of a group."""

_LEVER_CARDS = {"hold": "hold", "rejoin_grace": "grace", "promotion": "promote", "pause": "pause", "drained": "drain"}


def cards_in_order(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any] | None]]:
    """Returns the cards, each with the reason for the health of the group against which its lever helps now; None for
    most cards. The cards that help come first, in the order of the reasons, then those of levers that are on.
    """
    helpful: dict[str, Mapping[str, Any]] = {}
    for reason in document["health"]["reasons"]:
        card = _CARD_OF.get(reason["code"])
        if reason["code"] == ReasonCode.TASKS_WITHOUT_OWNER:
            is_away = any(member["away_until_ms"] is not None for member in document["members"])
            card = "grace" if is_away else "rebalance"
        if card is not None:
            helpful.setdefault(card, reason)
    on = [card for lever, card in _LEVER_CARDS.items() if document["levers"][lever]]
    return [(card, helpful.get(card)) for card in dict.fromkeys((*helpful, *on, *CARDS))]


class HeldChanges:
    """Computes and caches the effects of rebalances that wait for approval. Use `HeldChanges` on the service's event
    loop.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._kept: dict[tuple[str, int, int], Mapping[str, Any]] = {}

    async def of(
        self, request: Request, group_id: str, held: Mapping[str, Any] | None, names: Mapping[str, str]
    ) -> Mapping[str, Any] | None:
        """Returns the effects of the rebalance that waits for approval. `held`: the JSON object `held_rebalance` of the
        group. Returns None if no rebalance waits, or if the effects cannot be computed now.
        """
        if held is None:
            return None
        key = group_id, held["generation_id"], held["since_ms"]
        if key not in self._kept:
            coordinator = self._coordinator
            stored = await coordinator.recordings.stored(group_id, held["generation_id"])
            if stored is None:
                return None
            try:
                computed = await compute(request, coordinator, held_document, stored, coordinator.document_bounds)
            except (InputError, TooManyRequests):
                return None
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = computed
        return effects_shown(self._kept[key], names)


class DrainChoice(NamedTuple):
    """An instance or a member that can be drained. `target`: the value of the field `target` in the form."""

    target: str
    text: str


def drainable(
    document: Mapping[str, Any], names: Mapping[str, str]
) -> Sequence[tuple[DrainChoice, Sequence[DrainChoice]]]:
    """The instances that can be drained, each with its members. The result leaves out instances and members whose drain
    has already begun.
    """
    taken = {each["member_id"] or each["process_id"] for each in document["levers"]["drained"]}
    instances: dict[str, list[Mapping[str, Any]]] = {}
    for each in document["members"]:
        if each["process_id"] is not None and each["process_id"] not in taken:
            instances.setdefault(each["process_id"], []).append(each)
    choices = []
    for process, members in instances.items():
        active = counted(sum(len(each["active"]) for each in members), "active task")
        whole = f"{names.get(process, process)}: {counted(len(members), 'member')}, {active}"
        single = [
            DrainChoice(
                f"{MEMBER}:{each['member_id']}",
                f"only {each['client_id'] or each['member_id']}: {counted(len(each['active']), 'active task')}",
            )
            for each in members
            if each["member_id"] not in taken and len(members) > 1
        ]
        choices.append((DrainChoice(f"{INSTANCE}:{process}", whole), single))
    return sorted(choices, key=lambda each: each[0].text)


class LeverForm(NamedTuple):
    """One form as it was sent. `by`: the caller that sent the form. `reason`: None if the form has no reason."""

    fields: Mapping[str, str]
    by: str
    reason: str | None


def _generation(form: LeverForm) -> int:
    generation = whole_number(form.fields.get("generation", ""))
    if generation is None:
        raise InputError("names no rebalance: load the page again", "generation")
    return generation


def _target(form: LeverForm) -> tuple[str | None, str | None]:
    """Returns the process id and None to drain an instance, or None and the member id to drain a member. Raises
    InputError.
    """
    kind, _, one = form.fields.get("target", "").partition(":")
    if not one or kind not in (INSTANCE, MEMBER):
        raise InputError("choose the instance or the member that is to be drained", "target")
    return (one, None) if kind == INSTANCE else (None, one)


def _set_lever(name: LeverName, is_on: bool) -> Callable[[LeverForm], events.Event]:
    return lambda form: events.SetLever(name, is_on, form.by, form.reason)


def _set_time(
    name: LeverName, field: str, unit_ms: int, longest_ms: int, what: str
) -> Callable[[LeverForm], events.Event]:
    """Returns a function that reads a time from a form. The returned function makes the event that sets the lever to
    this time. `what`: the name of the unit of time, for error messages.
    """

    def event_of(form: LeverForm) -> events.Event:
        text, most = form.fields.get(field, "").strip(), longest_ms // unit_ms
        number = whole_number(text, most)
        if not number:
            raise InputError(f"must be a whole number of {what} from 1 to {most:,}, not {text or 'empty'}", field)
        return events.SetLever(name, True, form.by, form.reason, number * unit_ms)

    return event_of


def _discard(form: LeverForm) -> events.Event:
    if form.reason is None:
        raise InputError("say why it is discarded, for those who find it in the history", "discard-reason")
    return events.DecideHeldRebalance(False, _generation(form), form.by, form.reason)


def _stop_all(form: LeverForm) -> events.Event:
    if form.fields.get("sure") != "yes":
        raise InputError("tick the box first: the whole application stops", "sure")
    return events.Drain()


EVENTS: Mapping[str, Callable[[LeverForm], events.Event]] = {
    "approve": lambda form: events.DecideHeldRebalance(True, _generation(form), form.by, form.reason),
    "discard": _discard,
    "hold": _set_time(LeverName.HOLD, "hold-minutes", 60_000, LONGEST_HOLD_MS, "minutes"),
    "hold-off": _set_lever(LeverName.HOLD, False),
    "drain": lambda form: events.SetInstanceDrain(True, *_target(form), form.by, form.reason),
    "drain-end": lambda form: events.SetInstanceDrain(False, *_target(form)),
    "grace": _set_time(LeverName.REJOIN_GRACE, "grace-seconds", 1_000, LONGEST_GRACE_MS, "seconds"),
    "grace-off": _set_lever(LeverName.REJOIN_GRACE, False),
    "promote": _set_lever(LeverName.PROMOTION, True),
    "promote-off": _set_lever(LeverName.PROMOTION, False),
    "pause": _set_lever(LeverName.PAUSE, True),
    "resume": _set_lever(LeverName.PAUSE, False),
    "rebalance": lambda form: events.RequestRebalance(form.reason),
    "stop-all": _stop_all,
}
"""For each name that a form sends as `lever`, the function that makes the event of the form."""

LABELS: Mapping[str, str] = {
    "hold-minutes": "Minutes to wait at most",
    "grace-seconds": "Seconds to wait",
    "target": "Instance or member",
    "sure": "The box",
    "generation": "The rebalance that waits",
    **{f"{lever}-reason": "Reason" for lever in EVENTS},
}
"""The label of each field, by the field's id."""
