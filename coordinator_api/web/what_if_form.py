"""The what-if form: what was typed, what of it is wrong, and the changes that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from assignor.errors import AssignorFault, InputError
from assignor.recording.fields import as_assignor, as_configs
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS
from assignor.types import JAVA_INT_MAX
from coordinator_api.views.wording import sentence
from rebalance_analysis.what_if import EVERY_PROCESS, Changes
from rebalance_analysis.what_if.typed_changes import typed_instances, typed_lags, typed_threads

LONGEST = 2_000
"""Characters of one field."""

ASSIGNORS = tuple(BUILT_IN_ASSIGNORS)
"""Those that every service has."""


class Field(NamedTuple):
    """`kind`: text; number, which sets the config that `hint` names; or assignor, which has a list. `change`: of
    `Changes`, which errors name.
    """

    name: str
    label: str
    hint: str
    kind: str = "text"
    change: str = ""


FIELDS = (
    Field("add", "Instances to add", "How many, and the stream threads of each: 2x4", change="add_instances"),
    Field(
        "remove",
        "Instances to remove",
        "Process ids, client ids or their beginnings, with commas between",
        change="remove",
    ),
    Field(
        "threads",
        "Stream threads of each instance",
        "A number, or P=N for one instance P; with commas between",
        change="threads",
    ),
    Field("standbys", "Standby copies of each task", "num.standby.replicas", "number"),
    Field("warm_ups", "Warm-ups at one time", "max.warmup.replicas", "number"),
    Field("lag", "Acceptable lag, in records", "acceptable.recovery.lag", "number"),
    Field("probing", "Probing interval, in ms", "probing.rebalance.interval.ms", "number"),
    Field(
        "lags",
        "Lag of tasks, in records",
        "0_3=5000, P/0_3=5000 on instance P, *=0 for all; with commas between",
        change="lags",
    ),
    Field(
        "assignor",
        "Task assignor",
        "One of the list, or a class that the service allows, as module:Class",
        "assignor",
        "assignor",
    ),
)
_CONFIGS = {field.name: field.hint for field in FIELDS if field.kind == "number"}


class WhatIfForm(NamedTuple):
    """`generation`: None for the group as it is now. `typed`: as it was sent. `errors`: what is wrong, by field; empty
    names what belongs to none. `changes`: None while something is wrong.
    """

    generation: int | None
    typed: Mapping[str, str]
    errors: Mapping[str, str]
    changes: Changes | None

    @property
    def asked(self) -> bool:
        """Whether anything is to be different."""
        return self.changes is not None and self.changes != Changes()

    def refused(self, where: str | None, why: str) -> WhatIfForm:
        """The same, with what the computation could not use beside its field."""
        error = sentence(why.removeprefix(f"{where}: "))
        return self._replace(errors={**self.errors, _field_at(where or ""): error}, changes=None)


def what_if_form(parameters: Mapping[str, str]) -> WhatIfForm:
    """`parameters`: of the address. A field that is empty changes nothing."""
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
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= JAVA_INT_MAX):
            raise InputError("must be the number of a recorded generation, or empty for the group as it is now")
        return int(text)
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
    others: dict[str, Any] = {
        field.change: found[field.name] for field in FIELDS if field.change and field.name in found
    }
    return Changes(configs=configs, **others)


def _field_at(where: str) -> str:
    """The field that an error of the computation is about; empty for none."""
    parts = where.replace("[", ".").split(".")
    return next(
        (
            field.name
            for field in FIELDS
            if (field.kind == "number" and field.hint in where) or (field.change and field.change in parts)
        ),
        where if where == "generation" else "",
    )
