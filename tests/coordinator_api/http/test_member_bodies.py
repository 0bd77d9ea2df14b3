"""What members send: strict types, bounds, and a few fields of a later release."""

import base64
import json
from typing import Any

import pytest
from pydantic import BaseModel

from assignor.types import TaskId
from coordinator_api.group.events import Heartbeat, MemberFailure
from coordinator_api.group.notices import ProcessNotice
from coordinator_api.http.dependencies import JsonBody
from coordinator_api.http.json_objects import MAX_NESTING
from coordinator_api.http.models.member_models import (
    MAX_OFFSET_SUMS,
    MAX_PROCESS_MEMBERS,
    MAX_UNKNOWN_BYTES,
    MAX_UNKNOWN_FIELDS,
    HeartbeatBody,
    LeaveBody,
    ProcessHeartbeatBody,
    SubscriptionBody,
)
from coordinator_api.http.problems import Problem

HEARTBEAT: dict[str, Any] = {"generation_id": 3, "task_offset_sums": {"0_1": 5}, "group_instance_id": "i"}
NOTICE: dict[str, Any] = {"code": "RECORDS_DROPPED", "text": "3 late", "count": 3, "at_ms": 5}
PROCESS: dict[str, Any] = {
    "members": {"a": HEARTBEAT, "b": {"generation_id": 0}},
    "known": "n",
    "notices": [NOTICE, {**NOTICE, "code": "ERRORS_LOGGED"}],
}
FAILURE: dict[str, Any] = {"error": "ValueError", "message": "no 'x'", "place": "orders.py:12, in f", "task": "0_1"}
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
KINDS: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "heartbeat": (HeartbeatBody, HEARTBEAT),
    "process heartbeat": (ProcessHeartbeatBody, PROCESS),
    "subscription": (SubscriptionBody, SUBSCRIPTION),
    "leave": (LeaveBody, {"failure": FAILURE}),
}


def decoded(model: type[BaseModel], document: object) -> BaseModel:
    return JsonBody(model).decode(json.dumps(document).encode())


def refusal(model: type[BaseModel], document: object) -> str:
    """The detail of the problem."""
    with pytest.raises(Problem) as refused:
        decoded(model, document)
    assert (refused.value.code, refused.value.status) == ("INVALID_REQUEST", 422)
    return refused.value.detail


def test_should_decode_every_field() -> None:
    heartbeat = HeartbeatBody.model_validate_json(json.dumps(HEARTBEAT)).to_heartbeat("m")
    process = ProcessHeartbeatBody.model_validate_json(json.dumps(PROCESS))
    joined = SubscriptionBody.model_validate_json(json.dumps({**SUBSCRIPTION, "member_id": None, "join_id": "j"}))

    assert heartbeat == Heartbeat("m", 3, {TaskId(0, 1): 5}, "i")
    assert process.heartbeats() == {"a": Heartbeat("a", 3, {TaskId(0, 1): 5}, "i"), "b": Heartbeat("b", 0)}
    assert process.known == "n"
    assert process.process_notices() == (
        ProcessNotice("RECORDS_DROPPED", "3 late", 3, 5),
        ProcessNotice("ERRORS_LOGGED", "3 late", 3, 5),
    )
    assert (joined.subscription, joined.join_id, joined.leave_on_disconnect) == (b"bytes", "j", True)
    assert SubscriptionBody.model_fields["leave_on_disconnect"].default is False
    assert failure(FAILURE) == MemberFailure("ValueError", "no 'x'", "orders.py:12, in f", "0_1")
    assert failure({"error": "E"}) == MemberFailure("E")
    assert LeaveBody.model_validate_json("{}").failure is None


def failure(document: dict[str, Any]) -> MemberFailure:
    body = LeaveBody.model_validate_json(json.dumps({"failure": document}))
    assert body.failure is not None
    return body.failure.to_failure()


def test_should_replace_what_cannot_be_printed_in_a_failure_by_blanks() -> None:
    hostile = "a\x1b[2J\n\u202eb"
    sent = {"error": hostile, "message": hostile, "place": hostile, "task": "t\n__0_1"}
    assert failure(sent) == MemberFailure("a [2J  b", "a [2J  b", "a [2J  b", "t __0_1")


@pytest.mark.parametrize(
    ("model", "change", "detail"),
    [
        (HeartbeatBody, {"generation_id": True}, "body.generation_id: Input should be a valid integer"),
        (HeartbeatBody, {"generation_id": 1.0}, "body.generation_id: Input should be a valid integer"),
        (HeartbeatBody, {"generation_id": "1"}, "body.generation_id: Input should be a valid integer"),
        (HeartbeatBody, {"generation_id": 2**31}, "body.generation_id: Input should be less than or equal to 2147"),
        (HeartbeatBody, {"group_instance_id": ""}, "body.group_instance_id: String should have at least 1 character"),
        (HeartbeatBody, {"group_instance_id": 1}, "body.group_instance_id: Input should be a valid string"),
        (HeartbeatBody, {"task_offset_sums": {"0": 1}}, "body.task_offset_sums.0: not a task id such as 0_3"),
        (HeartbeatBody, {"task_offset_sums": {"0_9999999999": 1}}, "body.task_offset_sums.0_9999999999: not a task id"),
        (HeartbeatBody, {"task_offset_sums": {"0_1\n": 1}}, "body.task_offset_sums.0_1\n: not a task id such as 0_3"),
        (HeartbeatBody, {"task_offset_sums": {"0_1": True}}, "body.task_offset_sums.0_1: Input should be a valid int"),
        (HeartbeatBody, {"task_offset_sums": {"0_1": 2**63}}, "body.task_offset_sums.0_1: Input should be less than"),
        (HeartbeatBody, {"task_offset_sums": []}, "body.task_offset_sums: Input should be an object"),
        (SubscriptionBody, {"leave_on_disconnect": 1}, "body.leave_on_disconnect: Input should be a valid boolean"),
        (SubscriptionBody, {"incarnation": -1}, "body.incarnation: Input should be greater than or equal to 0"),
        (SubscriptionBody, {"session_timeout_ms": 0}, "body.session_timeout_ms: Input should be greater than or equal"),
        (
            SubscriptionBody,
            {"rebalance_timeout_ms": 0},
            "body.rebalance_timeout_ms: Input should be greater than or equal",
        ),
        (SubscriptionBody, {"client_id": "x" * 1_001}, "body.client_id: String should have at most 1000 characters"),
        (SubscriptionBody, {"join_id": ""}, "body.join_id: String should have at least 1 character"),
        (SubscriptionBody, {"join_id": "x" * 101}, "body.join_id: String should have at most 100 characters"),
        (SubscriptionBody, {"subscription": "YQ"}, "body.subscription: not base64"),
        (SubscriptionBody, {"subscription": "Y Q="}, "body.subscription: not base64"),
        (SubscriptionBody, {"subscription": "\u00e4"}, "body.subscription: not base64"),
        (SubscriptionBody, {"subscription": 5}, "body.subscription: must be a base64 string"),
        (SubscriptionBody, {"join_id": "j"}, "body.join_id: is of a first join; a rejoin is repeated"),
        (ProcessHeartbeatBody, {"members": {}}, "body.members: Dictionary should have at least 1 item"),
        (ProcessHeartbeatBody, {"members": {"": HEARTBEAT}}, "body.members.: String should have at least 1 character"),
        (ProcessHeartbeatBody, {"members": {"a": {}}}, "body.members.a.generation_id: Field required"),
        (ProcessHeartbeatBody, {"known": 7}, "body.known: Input should be a valid string"),
        (ProcessHeartbeatBody, {"members": {"a": 1}}, "body.members.a: Input should be an object"),
        (LeaveBody, {"failure": "x"}, "body.failure: Input should be an object"),
        (LeaveBody, {"failure": {}}, "body.failure.error: Field required"),
        (LeaveBody, {"failure": {"error": ""}}, "body.failure.error: String should have at least 1 character"),
        (LeaveBody, {"failure": {"error": "x" * 201}}, "body.failure.error: String should have at most 200"),
        (LeaveBody, {"failure": {**FAILURE, "message": "x" * 1_001}}, "body.failure.message: String should have at"),
        (LeaveBody, {"failure": {**FAILURE, "message": None}}, "body.failure.message: Input should be a valid string"),
        (LeaveBody, {"failure": {**FAILURE, "place": "x" * 501}}, "body.failure.place: String should have at most 500"),
        (LeaveBody, {"failure": {**FAILURE, "task": "x"}}, "body.failure.task: String should match pattern"),
        (LeaveBody, {"failure": {**FAILURE, "later": "y" * 5_000}}, "body.failure: no more than 4096 bytes"),
    ],
)
def test_should_say_what_is_wrong_and_where(model: type[BaseModel], change: dict[str, Any], detail: str) -> None:
    usual = next(usual for kind, usual in KINDS.values() if kind is model)

    assert refusal(model, {**usual, **change}).startswith(detail)


@pytest.mark.parametrize("name", ["session_timeout_ms", "rebalance_timeout_ms", "subscription"])
def test_should_ask_for_each_field_that_a_join_needs(name: str) -> None:
    document = {key: value for key, value in SUBSCRIPTION.items() if key != name}

    assert refusal(SubscriptionBody, document) == f"body.{name}: Field required"


@pytest.mark.parametrize(
    ("raw", "detail"),
    [
        (b"", "body: not JSON: EOF while parsing a value at byte 0"),
        (b'{"generation_id": 1', "body: not JSON: EOF while parsing an object at byte 18"),
        (b'{\n"\xc3\xa4": 1,\n x}', "body: not JSON: key must be a string at byte 12"),
        (b'{"generation_id": NaN}', "body.generation_id: Input should be a valid integer"),
        (b'{"generation_id": 1, "later": NaN}', "body: NaN, Infinity and numbers as large are no JSON"),
        (b'{"generation_id": 1, "later": [1e999]}', "body: NaN, Infinity and numbers as large are no JSON"),
        (b'{"generation_id": 1, "group_instance_id": "\xff"}', "body: not JSON: invalid unicode code point at byte 43"),
        (b'{"generation_id": 1, "group_instance_id": "\\ud800"}', "body: not JSON: unexpected end of hex escape"),
        (b"[]", "body: Input should be an object"),
    ],
)
def test_should_refuse_what_is_no_json_object(raw: bytes, detail: str) -> None:
    with pytest.raises(Problem) as refused:
        JsonBody(HeartbeatBody).decode(raw)

    assert refused.value.detail.startswith(detail)


def test_should_take_the_last_of_two_fields_of_one_name() -> None:
    body = JsonBody(HeartbeatBody).decode(b'{"generation_id": 1, "generation_id": 2}')

    assert body.generation_id == 2


def test_should_bound_members_and_offsets() -> None:
    members = {str(number): {"generation_id": 1} for number in range(MAX_PROCESS_MEMBERS)}
    sums = {f"0_{number}": 1 for number in range(MAX_OFFSET_SUMS)}

    decoded(ProcessHeartbeatBody, {"members": members})
    decoded(HeartbeatBody, {"generation_id": 1, "task_offset_sums": sums})
    assert "at most 1000 items" in refusal(ProcessHeartbeatBody, {"members": {**members, "more": {"generation_id": 1}}})
    more = {"generation_id": 1, "task_offset_sums": {**sums, "1_0": 1}}
    assert "at most 10000 items" in refusal(HeartbeatBody, more)


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
def test_should_refuse_a_notice_that_is_none(notice: Any) -> None:
    assert "body.notices.1" in refusal(ProcessHeartbeatBody, {**PROCESS, "notices": [NOTICE, notice]})


@pytest.mark.parametrize("notices", [[NOTICE] * 17, {}, "x", 0, False], ids=["17", "object", "text", "0", "false"])
def test_should_refuse_what_is_no_short_list_of_notices(notices: Any) -> None:
    assert refusal(ProcessHeartbeatBody, {**PROCESS, "notices": notices}).startswith("body.notices: ")


def test_should_take_the_largest_notices_and_bound_what_it_ignores_in_them() -> None:
    largest = {"code": "A" * 64, "text": "\u00e4" * 500, "count": 2**63 - 1, "at_ms": 2**63 - 1}
    decoded(ProcessHeartbeatBody, {**PROCESS, "notices": [largest] * 16})
    later = {f"later_{number}": 1 for number in range(MAX_UNKNOWN_FIELDS)}
    decoded(ProcessHeartbeatBody, {**PROCESS, "later": 1, "notices": [{**NOTICE, **later}] * 16})
    refusal(ProcessHeartbeatBody, {**PROCESS, "notices": [{**NOTICE, **later, "one_more": 1}]})
    refusal(ProcessHeartbeatBody, {**PROCESS, "notices": [{**NOTICE, "later": "y" * 5_000}]})


def test_should_bound_what_it_ignores_over_the_whole_body() -> None:
    def process(fields: int, size: int) -> dict[str, Any]:
        return {"members": {str(n): {"generation_id": 1, "x": "y" * size} for n in range(fields)}}

    decoded(ProcessHeartbeatBody, process(16, 200))
    refusal(ProcessHeartbeatBody, process(17, 1))
    refusal(ProcessHeartbeatBody, {**process(16, 1), "x": 1})
    refusal(ProcessHeartbeatBody, process(2, 2_100))


@pytest.mark.parametrize("kind", KINDS)
def test_should_ignore_a_few_fields_of_a_later_release(kind: str) -> None:
    model, usual = KINDS[kind]
    later = {f"later_{number}": {"deep": [number, None, "\u00e4"]} for number in range(MAX_UNKNOWN_FIELDS)}

    newer = decoded(model, {**usual, **later})

    assert {name: getattr(newer, name) for name in model.model_fields} == dict(decoded(model, usual))
    refusal(model, {**usual, **later, "one_too_many": 1})
    assert "additionalProperties" not in model.model_json_schema()
    assert model.model_json_schema()["maxProperties"] == len(model.model_fields) + MAX_UNKNOWN_FIELDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("letter", ["x", "\u00e4"], ids=["ascii", "escaped"])
def test_should_bound_the_bytes_of_what_it_ignores(kind: str, letter: str) -> None:
    model, usual = KINDS[kind]
    around = len('{"later":""}')
    most = (MAX_UNKNOWN_BYTES - around) // len(json.dumps(letter)[1:-1])

    decoded(model, {**usual, "later": letter * most})
    refusal(model, {**usual, "later": letter * (most + 1)})


@pytest.mark.parametrize("kind", KINDS)
def test_should_refuse_deep_nesting_wherever_the_stack_ends(kind: str) -> None:
    """What was read must be written and read again, by code that may stand higher on the same stack."""
    model, usual = KINDS[kind]
    rest = json.dumps(usual).encode()[1:-1]
    body = b"{" + rest + (b"," if rest else b"") + b'"later":%s}'
    for depth in (1, MAX_NESTING - 1, MAX_NESTING, *range(150, 250), *range(900, 1_100)):
        for nested in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
            raw = body % nested
            if depth < MAX_NESTING:
                JsonBody(model).decode(raw)
            else:
                with pytest.raises(Problem, match="nested too deeply"):
                    JsonBody(model).decode(raw)


def test_should_count_what_is_around_a_member_as_nesting() -> None:
    def process(depth: int) -> dict[str, Any]:
        later: Any = 1
        for _ in range(depth):
            later = [later]
        return {"members": {"a": {"generation_id": 1, "later": later}}}

    decoded(ProcessHeartbeatBody, process(MAX_NESTING - 3))
    assert "nested too deeply" in refusal(ProcessHeartbeatBody, process(MAX_NESTING - 2))
