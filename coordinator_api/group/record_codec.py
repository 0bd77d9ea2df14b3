"""Records as JSON objects and back, for the store: `{"type": "MemberRemoved", "member_id": ..., ...}`.

`STORED_FORMS` is the stored format: the name and the keys of each type of record, and where in the record each key's
value is found. Classes and fields may be renamed and nested; the left side of the table never changes. Bytes are
base64, tasks are their text, enumerations their value. The assignments of a rebalance are packed (`packed_assignments`)
and then base64; where an object stands in their place, an earlier release wrote it.

Reading is strict, because a state that is rebuilt from half-read records would be wrong: an unknown type, a missing key
or an unknown key is an error. Only a key that an earlier release did not write may be missing (`added_later`). Its
field has a default that means what that release meant.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

from assignor.errors import InputError
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from assignor.types import TaskId
from coordinator_api.group import records
from coordinator_api.group.packed_assignments import PackedAssignments, unpacked_assignments
from coordinator_api.group.records import CoordinatorRecord
from coordinator_api.group.states import (
    GroupState,
    HoldEnd,
    KeptBecause,
    RebalanceOutcome,
    RebalanceReason,
    RemovalReason,
)


class StoredForm(NamedTuple):
    """`keys`: JSON key to the field of the record, with dots for a field of a field, in the order of writing.

    `added_later`: keys that an earlier release did not write. `left_out`: those of them that are not written either
    when the field has its default.
    """

    record_type: type[CoordinatorRecord]
    keys: Mapping[str, str]
    added_later: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()


_ASKED_LATER = ("join_id", "leave_on_disconnect")
_ORIGIN = ("declared_by", "declared_at_ms")


def _same(*names: str, within: str = "") -> dict[str, str]:
    """Keys that are called like the fields they hold."""
    return {name: f"{within}.{name}" if within else name for name in names}


def _join(path: str) -> dict[str, str]:
    said = ("group_instance_id", "incarnation", "client_id", "session_timeout_ms", "rebalance_timeout_ms")
    return {**_same(*said, "subscription", within=path), "joined_generation": f"{path}.generation_id"}


def _asked(path: str) -> dict[str, str]:
    """What a join asks for since clients may repeat it, and since connections are watched."""
    return _same(*_ASKED_LATER, within=path)


def _end(path: str) -> dict[str, str]:
    return _same("followup_rebalance", "probing_rebalance_at_ms", "error", "error_code", within=path)


def _said(path: str) -> dict[str, str]:
    return _same("by", "at_ms", "reason", within=path)


STORED_FORMS: Mapping[str, StoredForm] = {
    "DefinitionChanged": StoredForm(
        records.DefinitionChanged,
        {**_same("revision", "input_json"), **_same(*_ORIGIN, within="origin")},
        frozenset(_ORIGIN),
        frozenset(_ORIGIN),
    ),
    "DrainChanged": StoredForm(records.DrainChanged, _same("draining")),
    "HoldChanged": StoredForm(records.HoldChanged, {"time_limit_ms": "hold.time_limit_ms", **_said("hold.said")}),
    "RejoinGraceChanged": StoredForm(
        records.RejoinGraceChanged, {"grace_ms": "rejoin_grace.grace_ms", **_said("rejoin_grace.said")}
    ),
    "PromotionChanged": StoredForm(records.PromotionChanged, _said("promotion")),
    "PauseChanged": StoredForm(records.PauseChanged, _said("pause")),
    "InstanceDrained": StoredForm(
        records.InstanceDrained, {**_same("process_id", "member_id", within="drained"), **_said("drained.said")}
    ),
    "InstanceDrainEnded": StoredForm(records.InstanceDrainEnded, _same("target")),
    "MemberSubscribed": StoredForm(
        records.MemberSubscribed,
        {**_same("member_id"), **_join("join"), **_asked("join")},
        frozenset(_ASKED_LATER),
        frozenset(_ASKED_LATER),
    ),
    "MemberReplaced": StoredForm(records.MemberReplaced, _same("group_instance_id", "old_member_id", "new_member_id")),
    "MemberAway": StoredForm(records.MemberAway, _same("member_id", "until_ms")),
    "MemberRemoved": StoredForm(records.MemberRemoved, _same("member_id", "reason")),
    "RoundPreparing": StoredForm(
        records.RebalanceStarted,
        {"reason": "cause.reason", "initial": "initial", "detail": "cause.detail"},
        frozenset({"detail"}),
    ),
    "GenerationStarted": StoredForm(records.GenerationStarted, _same("generation_id", "definition_revision")),
    "GroupEmptied": StoredForm(records.GroupEmptied, _same("generation_id")),
    "RoundCompleted": StoredForm(
        records.RebalanceCompleted,
        {
            "generation_id": "generation_id",
            "outcome": "end.outcome",
            "assignments": "assignments",
            **_end("end"),
            "warm_ups": "warm_ups",
            **_same("fingerprint", "topics", "missing_topics", within="basis"),
        },
        frozenset({"topics", "missing_topics"}),
    ),
    "RoundHeld": StoredForm(
        records.RebalanceHeld,
        {
            "generation_id": "generation_id",
            "since_ms": "held.since_ms",
            "outcome": "held.end.outcome",
            "assignments": "held.assignments",
            **_end("held.end"),
            "warm_ups": "held.warm_ups",
            **_same("fingerprint", "topics", "missing_topics", within="held.basis"),
        },
    ),
    "HeldRoundEnded": StoredForm(records.HeldRebalanceEnded, {**_same("generation_id", "end"), **_said("said")}),
    "RoundKept": StoredForm(records.RebalanceKept, _same("generation_id", "because")),
    "ApprovalRestored": StoredForm(records.ApprovalRestored, _same("generation_id")),
    "WarmUpsPromoted": StoredForm(records.WarmUpsPromoted, _same("warm_ups")),
    "RoundLedElsewhere": StoredForm(
        records.RebalanceLedElsewhere,
        {
            **_same("led_by", "generation_id", "reported_at_ms", "input_json"),
            "outcome": "end.outcome",
            **_end("end"),
        },
    ),
    "MemberReported": StoredForm(
        records.MemberReported,
        {
            "member_id": "member_id",
            **_same("group_instance_id", "client_id", "subscription", within="member"),
            **_same("assignment", "warm_ups"),
        },
    ),
    "GroupDeleted": StoredForm(records.GroupDeleted, {}),
    "GroupRestored": StoredForm(
        records.GroupRestored,
        {
            **_same("state", "generation_id", "initial"),
            "reason": "cause.reason",
            "definition_revision": "definition_revision",
            "detail": "cause.detail",
        },
        frozenset({"detail"}),
    ),
    "LastRoundRestored": StoredForm(
        records.LastRebalanceRestored,
        {
            "generation_id": "last_rebalance.generation_id",
            "reason": "last_rebalance.cause.reason",
            "outcome": "last_rebalance.end.outcome",
            **_end("last_rebalance.end"),
            "fingerprint": "last_rebalance.basis.fingerprint",
            "definition_revision": "last_rebalance.definition_revision",
            "detail": "last_rebalance.cause.detail",
            **_same("topics", "missing_topics", within="last_rebalance.basis"),
        },
        frozenset({"detail", "topics", "missing_topics"}),
    ),
    "AssignmentsPacked": StoredForm(records.AssignmentsPacked, _same("assignments")),
    "MemberRestored": StoredForm(
        records.MemberRestored,
        {
            "member_id": "member.member_id",
            **_join("member.last_join"),
            "assigned_generation": "member.last_assignment.generation_id",
            **_same("assignment", "warm_ups", within="member.last_assignment"),
            "fenced_member_ids": "member.fenced_member_ids",
            **_asked("member.last_join"),
            "away_until_ms": "member.away_until_ms",
        },
        frozenset({*_ASKED_LATER, "away_until_ms"}),
        frozenset({*_ASKED_LATER, "away_until_ms"}),
    ),
}


def encode_record(record: CoordinatorRecord) -> str:
    """One line of JSON."""
    name = _STORED_NAMES[type(record)]
    written = dict(_RECORDS[name].write(record))
    form = STORED_FORMS[name]
    document = {key: written[key] for key in form.keys if key not in form.left_out or not _is_default(written[key])}
    return json.dumps({"type": name, **document}, separators=(",", ":"))


def _is_default(written: Any) -> bool:
    """Of keys that may be left out, these are the defaults; 0 is a number."""
    return written is None or written is False


def decode_record(text: str) -> CoordinatorRecord:
    """The record that `encode_record` wrote. Raises InputError."""
    try:
        document = json.loads(text)
    except ValueError as fault:
        raise InputError(str(fault), "record") from fault
    name = document.pop("type", None) if isinstance(document, dict) else None
    if not isinstance(name, str) or name not in STORED_FORMS:
        raise InputError(f"{name!r} is not a type of record", "record")
    form = STORED_FORMS[name]
    if not form.keys.keys() - document.keys() <= form.added_later or document.keys() - form.keys.keys():
        raise InputError(f"expected the fields {', '.join(form.keys)}, not {', '.join(document)}", f"record {name}")
    try:
        record: CoordinatorRecord = _RECORDS[name].read(document)
    except (TypeError, ValueError, AttributeError, binascii.Error) as fault:
        raise InputError(str(fault), f"record {name}") from fault
    return record


class _Shape(NamedTuple):
    """How values of one type are written as JSON and read back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _checked(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, not {value!r}")
        return value

    return read


def _or_none(shape: _Shape) -> _Shape:
    return _Shape(
        lambda value: None if value is None else shape.write(value),
        lambda value: None if value is None else shape.read(value),
    )


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


def _write_assignments(assignments: SharedAssignments) -> Any:
    if isinstance(assignments, PackedAssignments):
        return _PACKED.write(assignments)
    return {key: _PARTS.write(value) for key, value in assignments.parts.items()}


def _read_assignments(written: Any) -> SharedAssignments:
    """A text is packed. Earlier releases wrote an object, member id to bytes."""
    if isinstance(written, str):
        found: SharedAssignments = _PACKED.read(written)
        return found
    return SharedAssignments({key: _PARTS.read(value) for key, value in written.items()})


def _as_is(value: Any) -> Any:
    return value


_TEXT = _Shape(_as_is, _checked(str))
_NUMBER = _Shape(_as_is, _checked(int))
_BYTES = _Shape(_write_bytes, _read_bytes)
_PARTS = _Shape(lambda parts: _write_bytes(bytes(parts)), lambda text: AssignmentParts(_read_bytes(text)))
_PACKED = _Shape(
    lambda assignments: _write_bytes(assignments.packed), lambda text: unpacked_assignments(_read_bytes(text))
)
_TASKS = _Shape(lambda tasks: [str(task) for task in tasks], lambda tasks: tuple(TaskId.parse(task) for task in tasks))

_SHAPES: Mapping[Any, _Shape] = {
    str: _TEXT,
    str | None: _or_none(_TEXT),
    int: _NUMBER,
    int | None: _or_none(_NUMBER),
    bool: _Shape(_as_is, _checked(bool)),
    bytes: _BYTES,
    bytes | None: _or_none(_BYTES),
    tuple[str, ...]: _Shape(list, tuple),
    tuple[TaskId, ...]: _TASKS,
    Mapping[str, int]: _Shape(dict, lambda mapping: {key: _checked(int)(value) for key, value in mapping.items()}),
    AssignmentParts | None: _or_none(_PARTS),
    PackedAssignments: _PACKED,
    SharedAssignments | PackedAssignments: _Shape(_write_assignments, _read_assignments),
    Mapping[str, tuple[TaskId, ...]]: _Shape(
        lambda mapping: {key: _TASKS.write(value) for key, value in mapping.items()},
        lambda mapping: {key: _TASKS.read(value) for key, value in mapping.items()},
    ),
    GroupState: _Shape(str, GroupState),
    RebalanceOutcome: _Shape(str, RebalanceOutcome),
    RemovalReason: _Shape(str, RemovalReason),
    RebalanceReason: _Shape(str, RebalanceReason),
    HoldEnd: _Shape(str, HoldEnd),
    KeptBecause: _Shape(str, KeptBecause),
}


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A field that is written under a key."""

    key: str
    shape: _Shape

    def keys(self) -> Iterator[str]:
        yield self.key

    def write(self, value: Any) -> Iterator[tuple[str, Any]]:
        yield self.key, self.shape.write(value)

    def read(self, document: Mapping[str, Any]) -> Any:
        return self.shape.read(document[self.key])


@dataclass(frozen=True, slots=True)
class _Branch:
    """A value whose fields are written into the same JSON object. None is written as null under all their keys."""

    value_type: type
    may_be_none: bool
    fields: Mapping[str, _Leaf | _Branch]

    def keys(self) -> Iterator[str]:
        for field in self.fields.values():
            yield from field.keys()

    def write(self, value: Any) -> Iterator[tuple[str, Any]]:
        if value is None:
            yield from ((key, None) for key in self.keys())
            return
        for name, field in self.fields.items():
            yield from field.write(getattr(value, name))

    def read(self, document: Mapping[str, Any]) -> Any:
        if self.may_be_none and all(document.get(key) is None for key in self.keys()):
            return None
        written = {name: field for name, field in self.fields.items() if not document.keys().isdisjoint(field.keys())}
        return self.value_type(**{name: field.read(document) for name, field in written.items()})


def _branch(hint: Any, keys: Mapping[str, str]) -> _Branch:
    """How a value of type `hint` is written. `keys`: JSON key to field, as in `StoredForm`."""
    value_type = next((each for each in get_args(hint) if each is not NoneType), hint)
    hints = get_type_hints(value_type)
    fields: dict[str, _Leaf | _Branch] = {}
    for name in dict.fromkeys(path.partition(".")[0] for path in keys.values()):
        below = {key: path.removeprefix(f"{name}.") for key, path in keys.items() if path.startswith(f"{name}.")}
        (key, *_) = (key for key, path in keys.items() if path.partition(".")[0] == name)
        fields[name] = _branch(hints[name], below) if below else _Leaf(key, _SHAPES[hints[name]])
    return _Branch(value_type, value_type is not hint, fields)


_RECORDS: Mapping[str, _Branch] = {name: _branch(form.record_type, form.keys) for name, form in STORED_FORMS.items()}

_STORED_NAMES: Mapping[type, str] = {form.record_type: name for name, form in STORED_FORMS.items()}
