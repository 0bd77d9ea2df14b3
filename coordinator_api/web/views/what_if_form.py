"""The what-if form: what was typed, what of it is wrong, and the changes that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignor.errors import AssignorFault, InputError
from assignor.recording.assignor_fields import as_assignor, as_configs
from assignor.task_assignors.registry import BUILT_IN_ASSIGNORS
from assignor.what_if import EVERY_PROCESS, AddedInstances, Changes
from assignor.what_if.changes import MAX_INSTANCES, check_added

LONGEST = 2_000
"""Characters of one field."""

_CONFIGS = {
    "standbys": "num.standby.replicas",
    "warm_ups": "max.warmup.replicas",
    "lag": "acceptable.recovery.lag",
    "probing": "probing.rebalance.interval.ms",
}
_FIELDS = (
    ("add", "Instances to add", "How many, and the stream threads of each: 2x4", "text"),
    ("remove", "Instances to remove", "Process ids, client ids or their beginnings, with commas between", "text"),
    ("threads", "Stream threads of each instance", "A number, or P=N for one instance P; with commas between", "text"),
    ("standbys", "Standby copies of each task", "num.standby.replicas", "number"),
    ("warm_ups", "Warm-ups at one time", "max.warmup.replicas", "number"),
    ("lag", "Acceptable lag, in records", "acceptable.recovery.lag", "number"),
    ("probing", "Probing interval, in ms", "probing.rebalance.interval.ms", "number"),
    (
        "lags",
        "Lag of tasks, in records",
        "0_3=5000, P/0_3=5000 on instance P, *=0 for all; with commas between",
        "text",
    ),
    ("assignor", "Task assignor", "One of the list, or a class that the service allows, as module:Class", "assignor"),
)
_FIELD_OF_CHANGE = {
    "add_instances": "add",
    "remove": "remove",
    "threads": "threads",
    "lags": "lags",
    "assignor": "assignor",
}
ASSIGNORS = tuple(BUILT_IN_ASSIGNORS)
"""Those that every service has."""


@dataclass(frozen=True, slots=True)
class Field:
    """`kind`: text, number, or assignor, which has a list. `value`: as it was typed. `error`: None for none."""

    name: str
    label: str
    hint: str
    kind: str
    value: str
    error: str | None


@dataclass(frozen=True, slots=True)
class WhatIfForm:
    """`generation`: None for the group as it is now. `changes`: None while something is wrong. `error`: what is wrong
    and belongs to no field.
    """

    generation: int | None
    typed_generation: str
    generation_error: str | None
    fields: tuple[Field, ...]
    changes: Changes | None
    error: str | None = None

    @property
    def asked(self) -> bool:
        """Whether anything is to be different."""
        return self.changes is not None and self.changes != Changes()

    def refused(self, where: str | None, why: str) -> WhatIfForm:
        """The same, with what the computation could not use beside its field."""
        name = _field_at(where or "")
        why = _as_sentence(why.removeprefix(f"{where}: "))
        fields = tuple(
            Field(each.name, each.label, each.hint, each.kind, each.value, why if each.name == name else each.error)
            for each in self.fields
        )
        of_generation = why if where == "generation" else self.generation_error
        error = None if name is not None or where == "generation" else why
        return WhatIfForm(self.generation, self.typed_generation, of_generation, fields, None, error)


def what_if_form(typed: Mapping[str, str]) -> WhatIfForm:
    """`typed`: the address's parameters. A field that is empty changes nothing."""
    errors: dict[str, str] = {}
    found: dict[str, object] = {}
    for name, _, _, _ in _FIELDS:
        text = typed.get(name, "").strip()
        if not text:
            continue
        try:
            found[name] = _read(name, text)
        except AssignorFault as error:
            errors[name] = _sentence(error)
    shown = typed.get("generation", "").strip()
    generation, generation_error = None, None
    if shown:
        if shown.isascii() and shown.isdigit() and len(shown) <= 10 and int(shown) < 2**31:
            generation = int(shown)
        else:
            generation_error = "Must be the number of a recorded generation, or empty for the group as it is now."
    fields = tuple(
        Field(name, label, hint, kind, typed.get(name, "")[:LONGEST], errors.get(name))
        for name, label, hint, kind in _FIELDS
    )
    changes = None if errors or generation_error else _changes(found)
    return WhatIfForm(generation, shown[:LONGEST], generation_error, fields, changes)


def _read(name: str, text: str) -> object:
    if len(text) > LONGEST:
        raise InputError(f"must have at most {LONGEST} characters")
    if name in _CONFIGS:
        as_configs({_CONFIGS[name]: text}, "")
        return text
    if name == "assignor":
        return as_assignor(text, "")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if name == "add":
        return tuple(_added(part) for part in parts)
    if name == "lags":
        return dict(_lag(part) for part in parts)
    if name == "threads":
        return dict(_threads(part) for part in parts)
    if EVERY_PROCESS in parts:
        raise InputError("must name instances; all of them cannot be removed")
    return tuple(dict.fromkeys(parts))


def _added(text: str) -> AddedInstances:
    count, times, threads = text.partition("x")
    if not count or (times and not threads):
        raise InputError(f"must be NxT, for example 2x4, not {text!r}")
    return check_added(AddedInstances(_number(count), _number(threads) if times else 1), "")


def _threads(text: str) -> tuple[str, int]:
    process, equals, number = text.rpartition("=")
    if equals and not process:
        raise InputError(f"must be a number or P=N, not {text!r}")
    return process.strip() or EVERY_PROCESS, _number(number)


def _lag(text: str) -> tuple[str, int]:
    task, equals, records = text.rpartition("=")
    if not equals or not task.strip():
        raise InputError(f"must be TASK=N, for example 0_3=5000, not {text[:80]!r}")
    if not (records.strip().isascii() and records.strip().isdigit()) or len(records.strip()) > 18:
        raise InputError(f"must be a whole number of records, not {records.strip()[:80]!r}")
    return task.strip(), int(records)


def _number(text: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise InputError(f"must be a whole number, not {text[:80]!r}")
    if not 1 <= int(text) <= MAX_INSTANCES:
        raise InputError(f"must be from 1 to {MAX_INSTANCES:,}, not {int(text)}")
    return int(text)


def _changes(found: Mapping[str, object]) -> Changes:
    return Changes(
        assignor=found.get("assignor"),  # type: ignore[arg-type]
        configs={_CONFIGS[name]: value for name, value in found.items() if name in _CONFIGS},
        add_instances=found.get("add", ()),  # type: ignore[arg-type]
        remove=found.get("remove", ()),  # type: ignore[arg-type]
        threads=found.get("threads", {}),  # type: ignore[arg-type]
        lags=found.get("lags", {}),  # type: ignore[arg-type]
    )


def _field_at(where: str) -> str | None:
    for name, key in _CONFIGS.items():
        if key in where:
            return name
    parts = where.replace("[", ".").split(".")
    return next((field for change, field in _FIELD_OF_CHANGE.items() if change in parts), None)


def _sentence(error: AssignorFault) -> str:
    return _as_sentence(str(error).removeprefix(": "))


def _as_sentence(text: str) -> str:
    """A name with dots, such as that of a config, stays as it is."""
    begins = text if "." in text.partition(" ")[0] else text[:1].upper() + text[1:]
    return begins + ("" if text.endswith(".") else ".")
