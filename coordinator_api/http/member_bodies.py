"""The bodies that members send, read by hand: a heartbeat comes often, so it must cost little, whatever is in it.

The schemas of `schemas.py` describe the same bodies for OpenAPI, and a test holds the two together. Reading is strict:
a `true` is no number and `1.0` is no integer. Every body may have a few fields that are not known here, and which are
ignored: the members of a group are upgraded one after the other, and some of them before the coordinator. All limits
are on counts and bytes that have been read already, so a body costs time in proportion to the limit of its route.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX, TaskId
from coordinator_api.group.events import Heartbeat
from coordinator_api.groups.notices import ProcessNotice
from coordinator_api.http.json_objects import parse_object
from coordinator_api.http.problems import Problem
from coordinator_api.http.schemas import (
    MAX_JOIN_ID_LENGTH,
    MAX_NOTICE_LENGTH,
    MAX_NOTICES,
    MAX_OFFSET_SUMS,
    MAX_PROCESS_MEMBERS,
    MAX_TEXT_LENGTH,
    MAX_UNKNOWN_FIELDS,
    NOTICE_CODE_PATTERN,
    TASK_PATTERN,
)

MAX_UNKNOWN_BYTES = 4_096
"""Of all unknown fields of one body together, names and values, as ASCII JSON without spaces."""

_CODE = re.compile(NOTICE_CODE_PATTERN.removesuffix("$") + r"\Z", re.ASCII)
_TASK = re.compile(TASK_PATTERN.removesuffix("$") + r"\Z", re.ASCII)
_HEARTBEAT = frozenset({"generation_id", "task_offset_sums", "group_instance_id"})
_PROCESS_HEARTBEAT = frozenset({"members", "known", "notices"})
_NOTICE = frozenset({"code", "text", "count", "at_ms"})
_SUBSCRIPTION = frozenset(
    {
        "member_id",
        "group_instance_id",
        "incarnation",
        "client_id",
        "join_id",
        "leave_on_disconnect",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "subscription",
    }
)


class ProcessBody(NamedTuple):
    """A heartbeat of a process. `known`: the `news` of the answer that the process has. `notices`: for people."""

    members: Mapping[str, Heartbeat]
    known: str | None
    notices: tuple[ProcessNotice, ...] = ()


class SubscriptionFields(NamedTuple):
    """What a join says. Times in milliseconds."""

    member_id: str | None
    group_instance_id: str | None
    incarnation: int | None
    client_id: str | None
    join_id: str | None
    leave_on_disconnect: bool
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes


def read_heartbeat(raw: bytes, member_id: str) -> Heartbeat:
    """Raises Problem with the place of what is wrong, as the other readers here do."""
    document = parse_object(raw)
    _Unknown().take(document, _HEARTBEAT, "body")
    return _heartbeat(document, member_id, "body")


def read_process_heartbeat(raw: bytes) -> ProcessBody:
    document = parse_object(raw)
    unknown = _Unknown()
    unknown.take(document, _PROCESS_HEARTBEAT, "body")
    members = _required(document, "members", "body")
    if not isinstance(members, dict):
        raise _invalid("body.members", "Input should be a valid dictionary")
    if not 1 <= len(members) <= MAX_PROCESS_MEMBERS:
        raise _invalid("body.members", f"must name 1 to {MAX_PROCESS_MEMBERS} members, not {len(members)}")
    heartbeats = {}
    for member_id, beat in members.items():
        if not 1 <= len(member_id) <= MAX_TEXT_LENGTH:
            raise _invalid("body.members", f"a member id has 1 to {MAX_TEXT_LENGTH} characters")
        where = "body.members." + member_id
        if not isinstance(beat, dict):
            raise _invalid(where, "Input should be a valid dictionary")
        unknown.take(beat, _HEARTBEAT, where)
        heartbeats[member_id] = _heartbeat(beat, member_id, where)
    told = document.get("notices")
    notices = () if told is None else _notices(told)
    return ProcessBody(heartbeats, _text(document, "known", "body", MAX_TEXT_LENGTH), notices)


def read_subscription_body(raw: bytes) -> SubscriptionFields:
    document = parse_object(raw)
    _Unknown().take(document, _SUBSCRIPTION, "body")
    member_id = _text(document, "member_id", "body", MAX_TEXT_LENGTH)
    join_id = _text(document, "join_id", "body", MAX_JOIN_ID_LENGTH)
    if member_id is not None and join_id is not None:
        raise _invalid("body.join_id", "is of a first join; a rejoin is repeated with its member_id")
    leaves = document.get("leave_on_disconnect", False)
    if not isinstance(leaves, bool):
        raise _invalid("body.leave_on_disconnect", "Input should be a valid boolean")
    incarnation = document.get("incarnation")
    return SubscriptionFields(
        member_id=member_id,
        group_instance_id=_text(document, "group_instance_id", "body", MAX_TEXT_LENGTH),
        incarnation=None if incarnation is None else _integer(incarnation, "body.incarnation", 0, JAVA_LONG_MAX),
        client_id=_text(document, "client_id", "body", MAX_TEXT_LENGTH),
        join_id=join_id,
        leave_on_disconnect=leaves,
        session_timeout_ms=_positive_ms(document, "session_timeout_ms"),
        rebalance_timeout_ms=_positive_ms(document, "rebalance_timeout_ms"),
        subscription=_bytes(_required(document, "subscription", "body"), "body.subscription"),
    )


def check_leave_body(raw: bytes) -> None:
    """A leave needs no body; one that a later release sends is ignored like any other unknown fields."""
    if raw:
        _Unknown().take(parse_object(raw), frozenset(), "body")


def _heartbeat(document: Mapping[str, object], member_id: str, where: str) -> Heartbeat:
    generation_id = _integer(
        _required(document, "generation_id", where), f"{where}.generation_id", -(2**31), JAVA_INT_MAX
    )
    sums = document.get("task_offset_sums")
    return Heartbeat(
        member_id,
        generation_id,
        None if sums is None else _offset_sums(sums, f"{where}.task_offset_sums"),
        _text(document, "group_instance_id", where, MAX_TEXT_LENGTH),
    )


def _offset_sums(sums: object, where: str) -> Mapping[TaskId, int]:
    if not isinstance(sums, dict):
        raise _invalid(where, "Input should be a valid dictionary")
    if len(sums) > MAX_OFFSET_SUMS:
        raise _invalid(where, f"a member reports up to {MAX_OFFSET_SUMS} tasks, not {len(sums)}")
    parsed = {}
    for text, offset in sums.items():
        try:
            task = _task(text)
        except ValueError as error:
            raise _invalid(where, str(error)) from None
        if type(offset) is not int or not -(2**63) <= offset <= JAVA_LONG_MAX:
            raise _invalid(f"{where}.{text}", "Input should be a valid 64-bit integer")
        parsed[task] = offset
    return parsed


def _notices(told: object) -> tuple[ProcessNotice, ...]:
    if not isinstance(told, list):
        raise _invalid("body.notices", "Input should be a valid list")
    if len(told) > MAX_NOTICES:
        raise _invalid("body.notices", f"a process tells up to {MAX_NOTICES} notices, not {len(told)}")
    notices = []
    for index, each in enumerate(told):
        where = f"body.notices.{index}"
        if not isinstance(each, dict):
            raise _invalid(where, "Input should be a valid dictionary")
        _Unknown().take(each, _NOTICE, where)
        code, text = _required(each, "code", where), _required(each, "text", where)
        if not isinstance(code, str) or _CODE.match(code) is None:
            raise _invalid(f"{where}.code", f"String should match pattern '{NOTICE_CODE_PATTERN}'")
        if not isinstance(text, str) or not 1 <= len(text) <= MAX_NOTICE_LENGTH:
            raise _invalid(f"{where}.text", f"must be a string of 1 to {MAX_NOTICE_LENGTH} characters")
        count = _integer(_required(each, "count", where), f"{where}.count", 0, JAVA_LONG_MAX)
        at_ms = _integer(_required(each, "at_ms", where), f"{where}.at_ms", 0, JAVA_LONG_MAX)
        notices.append(ProcessNotice(code, text, count, at_ms))
    return tuple(notices)


@lru_cache(65_536)
def _task(text: str) -> TaskId:
    """Heartbeats name the same tasks again and again."""
    if len(text) > MAX_TEXT_LENGTH or _TASK.match(text) is None:
        raise InputError("not a task id such as 0_3")
    return TaskId.parse(text)


class _Unknown:
    """Counts the fields of one body that are not known here."""

    def __init__(self) -> None:
        self._fields = 0
        self._bytes = 0

    def take(self, document: Mapping[str, object], known: frozenset[str], where: str) -> None:
        """Raises Problem for too many, or too long ones."""
        if document.keys() <= known:
            return
        names = document.keys() - known
        self._fields += len(names)
        if self._fields > MAX_UNKNOWN_FIELDS:
            raise _invalid(where, f"no more than {MAX_UNKNOWN_FIELDS} unknown fields are ignored")
        self._bytes += len(json.dumps({name: document[name] for name in names}, separators=(",", ":")))
        if self._bytes > MAX_UNKNOWN_BYTES:
            raise _invalid(where, f"no more than {MAX_UNKNOWN_BYTES} bytes of unknown fields are ignored")


def _required(document: Mapping[str, object], name: str, where: str) -> object:
    if name not in document:
        raise _invalid(f"{where}.{name}", "Field required")
    return document[name]


def _integer(value: object, where: str, least: int, most: int) -> int:
    if type(value) is not int:  # a bool is an int to isinstance
        raise _invalid(where, "Input should be a valid integer")
    if value < least:
        raise _invalid(where, f"Input should be greater than or equal to {least}")
    if value > most:
        raise _invalid(where, f"Input should be less than or equal to {most}")
    return value


def _positive_ms(document: Mapping[str, object], name: str) -> int:
    return _integer(_required(document, name, "body"), f"body.{name}", 1, JAVA_INT_MAX)


def _text(document: Mapping[str, object], name: str, where: str, longest: int) -> str | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise _invalid(f"{where}.{name}", "Input should be a valid string")
    if not value:
        raise _invalid(f"{where}.{name}", "String should have at least 1 character")
    if len(value) > longest:
        raise _invalid(f"{where}.{name}", f"String should have at most {longest} characters")
    return value


def _bytes(value: object, where: str) -> bytes:
    if not isinstance(value, str):
        raise _invalid(where, "must be a base64 string")
    try:
        return base64.b64decode(value.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise _invalid(where, "not base64") from None


def _invalid(where: str, message: str) -> Problem:
    return Problem(
        "INVALID_REQUEST", f"{where}: {message}", extensions={"errors": [{"where": where, "message": message}]}
    )
