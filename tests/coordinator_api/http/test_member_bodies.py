"""Bodies are read by hand and described by schemas: what one takes, the other takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from assignor.types import TaskId
from coordinator_api.groups.notices import ProcessNotice
from coordinator_api.http.json_objects import MAX_NESTING
from coordinator_api.http.member_bodies import (
    MAX_UNKNOWN_BYTES,
    check_leave_body,
    read_heartbeat,
    read_process_heartbeat,
    read_subscription_body,
)
from coordinator_api.http.problems import Problem
from coordinator_api.http.schemas import (
    MAX_UNKNOWN_FIELDS,
    HeartbeatBody,
    LeaveBody,
    ProcessHeartbeatBody,
    SubscriptionBody,
)

HEARTBEAT: dict[str, Any] = {"generation_id": 3, "task_offset_sums": {"0_1": 5}, "group_instance_id": "i"}
NOTICE: dict[str, Any] = {"code": "RECORDS_DROPPED", "text": "3 late", "count": 3, "at_ms": 5}
PROCESS: dict[str, Any] = {
    "members": {"a": HEARTBEAT, "b": {"generation_id": 0}},
    "known": "n",
    "notices": [NOTICE, {**NOTICE, "code": "ERRORS_LOGGED"}],
}
SUBSCRIPTION: dict[str, Any] = {
    "member_id": "m",
    "group_instance_id": "i",
    "incarnation": 1,
    "client_id": "c",
    "leave_on_disconnect": True,
    "session_timeout_ms": 500,
    "rebalance_timeout_ms": 500,
    "subscription": base64.b64encode(b"bytes").decode(),
}
READERS: dict[str, tuple[Callable[[bytes], object], type[BaseModel], dict[str, Any]]] = {
    "heartbeat": (lambda raw: read_heartbeat(raw, "m"), HeartbeatBody, HEARTBEAT),
    "process heartbeat": (read_process_heartbeat, ProcessHeartbeatBody, PROCESS),
    "subscription": (read_subscription_body, SubscriptionBody, SUBSCRIPTION),
    "leave": (check_leave_body, LeaveBody, {}),
}

odd_values = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), 1.0, "", "0_3"])
    | st.text(st.characters(codec="utf-8"), max_size=4)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(
        st.sampled_from(["0_0", "1", "a__2_3", "_1_1"]), st.sampled_from([1, True, "x", 2**63]), max_size=2
    )
)


def accepts(reader: Callable[[bytes], object], document: object) -> bool:
    try:
        reader(json.dumps(document).encode())
    except Problem as problem:
        return problem.status != 422
    return True


@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
def test_should_take_what_the_schema_takes_and_nothing_else(kind: str, data: st.DataObject) -> None:
    reader, model, usual = READERS[kind]
    document = dict(usual)
    name = data.draw(st.sampled_from([*usual, "later"]))
    if data.draw(st.booleans()):
        document.pop(name, None)
    else:
        document[name] = data.draw(odd_values)

    try:
        model.model_validate_json(json.dumps(document))
        described = True
    except ValidationError:
        described = False

    assert accepts(reader, document) is described


def bad_notices() -> list[Any]:
    changes: list[dict[str, Any]] = [
        *({name: None} for name in NOTICE),
        *({"code": code} for code in ("", "lower", "9", "A" * 65, "A-B", "A\n", 1, True)),
        *({"text": text} for text in ("", "x" * 501, 1, ["x"])),
        *({name: number} for name in ("count", "at_ms") for number in (-1, 2**63, True, 1.0, "1")),
    ]
    missing = [{name: value for name, value in NOTICE.items() if name != left_out} for left_out in NOTICE]
    return [*({**NOTICE, **change} for change in changes), *missing, None, [], "x", 1]


@pytest.mark.parametrize("notice", bad_notices(), ids=repr)
def test_should_refuse_a_notice_that_is_none_as_the_schema_does(notice: Any) -> None:
    document = {**PROCESS, "notices": [NOTICE, notice]}
    with pytest.raises(ValidationError):
        ProcessHeartbeatBody.model_validate_json(json.dumps(document))
    with pytest.raises(Problem, match=r"body\.notices\.1"):
        read_process_heartbeat(json.dumps(document).encode())


@pytest.mark.parametrize("notices", [[NOTICE] * 17, {}, "x", 0, False], ids=["17", "object", "text", "0", "false"])
def test_should_refuse_what_is_no_short_list_of_notices(notices: Any) -> None:
    assert not accepts(read_process_heartbeat, {**PROCESS, "notices": notices})


def test_should_take_the_largest_notices_and_bound_what_it_ignores_in_them() -> None:
    largest = {"code": "A" * 64, "text": "\u00e4" * 500, "count": 2**63 - 1, "at_ms": 2**63 - 1}
    assert len(read_process_heartbeat(json.dumps({**PROCESS, "notices": [largest] * 16}).encode()).notices) == 16
    later = {f"later_{number}": 1 for number in range(MAX_UNKNOWN_FIELDS)}
    assert accepts(read_process_heartbeat, {**PROCESS, "later": 1, "notices": [{**NOTICE, **later}] * 16})
    assert not accepts(read_process_heartbeat, {**PROCESS, "notices": [{**NOTICE, **later, "one_more": 1}]})
    assert not accepts(read_process_heartbeat, {**PROCESS, "notices": [{**NOTICE, "later": "y" * 5_000}]})


def test_should_read_every_field() -> None:
    beat = read_heartbeat(json.dumps(HEARTBEAT).encode(), "m")
    process = read_process_heartbeat(json.dumps(PROCESS).encode())
    joined = read_subscription_body(json.dumps({**SUBSCRIPTION, "member_id": None, "join_id": "j"}).encode())

    assert (beat.member_id, beat.generation_id, beat.task_offset_sums) == ("m", 3, {TaskId(0, 1): 5})
    assert (list(process.members), process.members["a"].group_instance_id, process.known) == (["a", "b"], "i", "n")
    assert process.notices == (
        ProcessNotice("RECORDS_DROPPED", "3 late", 3, 5),
        ProcessNotice("ERRORS_LOGGED", "3 late", 3, 5),
    )
    assert (joined.subscription, joined.join_id, joined.leave_on_disconnect) == (b"bytes", "j", True)


def test_should_bound_what_it_ignores_over_the_whole_body() -> None:
    def process(fields: int, size: int) -> dict[str, Any]:
        return {"members": {str(n): {"generation_id": 1, "x": "y" * size} for n in range(fields)}}

    assert accepts(read_process_heartbeat, process(16, 200))
    assert not accepts(read_process_heartbeat, process(17, 1))
    assert not accepts(read_process_heartbeat, process(2, 2_100))


@pytest.mark.parametrize("kind", READERS)
def test_should_ignore_a_few_fields_of_a_later_release(kind: str) -> None:
    reader, model, usual = READERS[kind]
    later = {f"later_{number}": {"deep": [number, None, "\u00e4"]} for number in range(MAX_UNKNOWN_FIELDS)}

    assert reader(json.dumps({**usual, **later}).encode()) == reader(json.dumps(usual).encode())
    assert not accepts(reader, {**usual, **later, "one_too_many": 1})
    assert model.model_json_schema()["additionalProperties"] is True
    assert model.model_json_schema()["maxProperties"] == len(model.model_fields) + MAX_UNKNOWN_FIELDS


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("letter", ["x", "\u00e4"], ids=["ascii", "escaped"])
def test_should_bound_the_bytes_of_what_it_ignores(kind: str, letter: str) -> None:
    reader, _, usual = READERS[kind]
    around = len('{"later":""}')
    most = (MAX_UNKNOWN_BYTES - around) // len(json.dumps(letter)[1:-1])

    assert accepts(reader, {**usual, "later": letter * most})
    assert not accepts(reader, {**usual, "later": letter * (most + 1)})


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("escaped", [b"", b'"\\u0041":1,'], ids=["plain", "escaped"])
def test_should_refuse_deep_nesting_wherever_the_stack_ends(kind: str, escaped: bytes) -> None:
    """What was read must be written and read again, by code that may stand higher on the same stack."""
    reader, _, usual = READERS[kind]
    rest = json.dumps(usual).encode()[1:-1]
    body = b"{" + escaped + rest + (b"," if rest else b"") + b'"later":%s}'
    for depth in (1, MAX_NESTING - 1, MAX_NESTING, *range(900, 1_100)):
        for nested in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
            raw = body % nested
            if depth < MAX_NESTING:
                reader(raw)
            else:
                with pytest.raises(Problem, match="nested too deeply"):
                    reader(raw)
