"""`/ui/groups/{group}/what-if`: shows a form for hypothetical changes to a group, and the effects of the changes. The
changes apply to the present state of the group, or to a recorded state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import Request
from starlette.responses import Response

from assignor.errors import AssignorFault, InputError
from assignor.recording import RecordedRebalance
from assignor.recording.fields import as_assignor, as_configs
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS
from coordinator_api.errors import TooManyRequests
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.dependencies import GroupId, TheCoordinator, computing, named_router, whole_number
from coordinator_api.http.page_computations import what_if
from coordinator_api.http.present_rebalance import present_rebalance
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.views import changes_shown, sentence
from coordinator_api.web.rendering import page
from rebalance_analysis.presentation.comparisons import MEASURES, TIME_TO_RESTORE
from rebalance_analysis.simulate import ForecastModel
from rebalance_analysis.what_if import EVERY_PROCESS, Changes, changes_document
from rebalance_analysis.what_if.changes import typed_instances, typed_lags, typed_threads

router = named_router(include_in_schema=False)

MODEL = ForecastModel()
WIDTH, HEIGHT = 640, 180

LONGEST = 2_000
"""The largest number of characters of one field."""

ASSIGNORS = tuple(BUILT_IN_ASSIGNORS)
"""The names of the assignors that every service has."""


class Field(NamedTuple):
    """A field of the form. `kind`: `text`, `number` or `assignor`. A field of the kind `number` sets the config that
    `hint` names. Users choose the value of a field of the kind `assignor` from a list. `_CHANGES` maps each field that
    is not a number to the field of `Changes` that it sets.
    """

    name: str
    label: str
    hint: str
    kind: str = "text"


FIELDS = (
    Field("add", "Instances to add", "How many, and the stream threads of each: 2x4"),
    Field("remove", "Instances to remove", "Process ids, client ids or their beginnings, with commas between"),
    Field("threads", "Stream threads of each instance", "A number, or P=N for one instance P; with commas between"),
    Field("standbys", "Standby copies of each task", "num.standby.replicas", "number"),
    Field("warm_ups", "Warm-ups at one time", "max.warmup.replicas", "number"),
    Field("lag", "Acceptable lag, in records", "acceptable.recovery.lag", "number"),
    Field("probing", "Probing interval, in ms", "probing.rebalance.interval.ms", "number"),
    Field("lags", "Lag of tasks, in records", "0_3=5000, P/0_3=5000 on instance P, *=0 for all; with commas between"),
    Field(
        "assignor", "Task assignor", "One of the list, or a class that the service allows, as module:Class", "assignor"
    ),
)
_CHANGES = {"add": "add_instances", **{name: name for name in ("remove", "threads", "lags", "assignor")}}
_CONFIGS = {field.name: field.hint for field in FIELDS if field.kind == "number"}


@router.get("/ui/groups/{group}/what-if")
async def what_if_page(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """The page with the form. If the form contains changes, the page also shows the effects of the changes."""
    coordinator.group(group_id)
    form = what_if_form(dict(request.query_params))
    answer: Mapping[str, Any] | None = None
    if form.asked:
        try:
            answer = await _answer(request, coordinator, group_id, form)
        except TooManyRequests:
            raise
        except AssignorFault as error:
            form = form.refused(getattr(error, "where", None), str(error))
    return page(
        request,
        "what_if",
        status=400 if form.changes is None else 200,
        group_id=group_id,
        form=form,
        answer=answer,
        model=MODEL,
        fields=FIELDS,
        assignors=ASSIGNORS,
        measures=MEASURES,
        time_to_restore=TIME_TO_RESTORE,
    )


async def _answer(request: Request, coordinator: Coordinator, group_id: str, form: WhatIfForm) -> Mapping[str, Any]:
    """Computes the effects of the changes. Raises InputError, DecodeError or TooManyRequests."""
    assert form.changes is not None, "it is asked"
    # The limit for computations also applies while the state is read. A busy service therefore refuses the request
    # before it reads the state.
    with computing(request, coordinator):
        source: bytes | RecordedRebalance | None
        if form.generation is None:
            source = await present_rebalance(coordinator, group_id)
        else:
            source = await coordinator.recordings.stored(group_id, form.generation)
        if source is None:
            raise InputError(f"no rebalance of generation {form.generation} is recorded", "generation")
        asked, bounds = changes_document(form.changes), coordinator.document_bounds
        made: Mapping[str, Any] = await run_in_worker(request, coordinator, what_if, source, asked, bounds, MODEL)
    return {**changes_shown(made), **_plot(made["forecast"]["rounds"])}


def _plot(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Converts the `rounds` of the forecast to bars over time. The field `most` of the result is the value of the
    highest bar. The height of each bar is proportional to its value divided by `most`.
    """
    last_ms = max((each["at_ms"] for each in rounds), default=0) or 1
    most = max((len(each[kind]) for each in rounds for kind in ("moved", "warming_up")), default=0)
    scale = (HEIGHT - 50) / max(most, 1)
    bars = [
        {
            **each,
            "moved": len(each["moved"]),
            "warming_up": len(each["warming_up"]),
            "x": round(40 + (WIDTH - 80) * each["at_ms"] / last_ms, 1),
            "moved_height": round(len(each["moved"]) * scale, 1),
            "warming_height": round(len(each["warming_up"]) * scale, 1),
        }
        for each in rounds
    ]
    return {"rounds": bars, "most": most}


class WhatIfForm(NamedTuple):
    """The form as it was sent. `generation`: None for the present state of the group. `typed`: the texts of the fields.
    `errors`: the error of each field; the key "" is for an error that concerns no field. `changes`: None if there are
    errors.
    """

    generation: int | None
    typed: Mapping[str, str]
    errors: Mapping[str, str]
    changes: Changes | None

    @property
    def asked(self) -> bool:
        """True if the form has changes."""
        return self.changes is not None and self.changes != Changes()

    def refused(self, where: str | None, why: str) -> WhatIfForm:
        """Returns the form with an error of the computation, next to the field that the error concerns."""
        error = sentence(why.removeprefix(f"{where}: "))
        return self._replace(errors={**self.errors, _field_at(where or ""): error}, changes=None)


def what_if_form(parameters: Mapping[str, str]) -> WhatIfForm:
    """Reads the form from the parameters of the address. An empty field changes nothing."""
    typed = {name: parameters.get(name, "").strip() for name in ("generation", *(each.name for each in FIELDS))}
    errors: dict[str, str] = {}
    found: dict[str, object] = {}
    for name, text in typed.items():
        if text:
            try:
                found[name] = _read(name, text)
            except AssignorFault as error:
                errors[name] = sentence(str(error).removeprefix(": "))
    generation = found.get("generation")
    return WhatIfForm(
        generation if isinstance(generation, int) else None,
        {name: text[:LONGEST] for name, text in typed.items()},
        errors,
        None if errors else _changes(found),
    )


def _read(name: str, text: str) -> object:
    if len(text) > LONGEST:
        raise InputError(f"must have at most {LONGEST} characters")
    if name == "generation":
        generation = whole_number(text)
        if generation is None:
            raise InputError("must be the number of a recorded generation, or empty for the group as it is now")
        return generation
    if name in _CONFIGS:
        as_configs({_CONFIGS[name]: text}, "")
        return text
    if name == "assignor":
        return as_assignor(text, "")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if name == "add":
        return tuple(typed_instances(part, "") for part in parts)
    if name == "lags":
        return typed_lags(parts, "")
    if name == "threads":
        return typed_threads(parts, "")
    if EVERY_PROCESS in parts:
        raise InputError("must name instances; all of them cannot be removed")
    return tuple(dict.fromkeys(parts))


def _changes(found: Mapping[str, object]) -> Changes:
    configs = {_CONFIGS[name]: value for name, value in found.items() if name in _CONFIGS}
    others: dict[str, Any] = {_CHANGES[name]: value for name, value in found.items() if name in _CHANGES}
    return Changes(configs=configs, **others)


def _field_at(where: str) -> str:
    """The field that an error of the computation concerns; empty if the error concerns no field."""
    parts = where.replace("[", ".").split(".")
    return next(
        (
            field.name
            for field in FIELDS
            if (field.hint in where if field.kind == "number" else _CHANGES.get(field.name) in parts)
        ),
        where if where == "generation" else "",
    )
