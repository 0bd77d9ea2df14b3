"""Calls that schemathesis means to be right find what they need: a group, a member of it, a document that holds
together. Calls that it means to be wrong stay as they are, and so does every fourth of the others.

schemathesis imports this file in its own process (`SCHEMATHESIS_HOOKS`). It collects the answers for the test, which
reads them from a file.
"""

import atexit
import base64
import itertools
import json
import os
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, Response
from schemathesis.core import NOT_SET

from tests.coordinator_api.group_members import definition, subscription
from tests.coordinator_api.http.changed_documents import RECORDINGS
from tests.coordinator_api.http.told_to_schemathesis import ANSWERS_VARIABLE, KNOWN_VARIABLE, OF_KNOWN_MEMBERS, TOKEN

PROCESS_ID = "9638c027-9105-4c73-b9ed-d0bfcb47a168"
SESSION_MS = 1_800_000

_FORECAST = [each for each in RECORDINGS if each.get("input", {}).get("future_process_id") is None]
"""Nobody knows what a member of an unknown version would send next."""

_numbers = itertools.count()
_made_right: set[str] = set()
_succeeded: set[str] = set()
_refused: list[str] = []


def _make_right(case: Case[Any], operation: str, number: int) -> bool:
    """Whether the call is one that has to succeed by now."""
    if operation in OF_KNOWN_MEMBERS:
        _name_a_known_member(case, operation, number)
    elif operation == "subscribe":
        case.path_parameters["group"] = _fresh_group(case)
    elif operation == "assign_once":
        case.body = RECORDINGS[number % len(RECORDINGS)]
    elif operation == "forecast_once":
        case.body = _FORECAST[number % len(_FORECAST)]
        case.query.pop("max_rounds", None)  # how many there may be depends on the size of the group
    else:
        return False
    return True


def _name_a_known_member(case: Case[Any], operation: str, number: int) -> None:
    members = json.loads(os.environ[KNOWN_VARIABLE])
    group, member = members[number % len(members)]
    places = {"group": group, "member": member, "generation": 1}
    case.path_parameters.update({name: places[name] for name in case.path_parameters})
    for name, value in (("min_generation", 1), ("task", f"0_{number % 4}")):
        if name in case.query:
            case.query[name] = value
    case.query.pop("group_instance_id", None)
    body: Any = case.body
    if operation == "heartbeat" and isinstance(body, dict):
        body.update(generation_id=1, group_instance_id=None)
    if operation == "process_heartbeat" and isinstance(body, dict):
        body["members"][member] = {"generation_id": 1}


def _leave_known_members_alone(case: Case[Any]) -> None:
    """schemathesis reads ids in answers and uses them in later calls. Other calls need the known members."""
    known = {member for _, member in json.loads(os.environ[KNOWN_VARIABLE])}
    if case.path_parameters.get("member") in known:
        case.path_parameters["member"] = "somebody"


def _fresh_group(case: Case[Any]) -> str:
    group = f"fresh-{uuid.uuid4().hex[:12]}"
    address = f"{str(case.operation.base_url).rstrip('/')}/v1/groups/{group}"
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    body = json.dumps(definition()).encode("ascii")
    with urllib.request.urlopen(urllib.request.Request(address, body, headers, method="PUT"), timeout=60):
        return group


def _give_a_real_subscription(case: Case[Any]) -> None:
    """What a schema cannot say: bytes in a format of Kafka, session timeouts within this service's settings, a join_id
    that nobody else has.
    """
    body: Any = case.body
    if isinstance(body, dict):
        raw = base64.b64encode(subscription(PROCESS_ID)).decode("ascii")
        body.update(session_timeout_ms=SESSION_MS, rebalance_timeout_ms=SESSION_MS, subscription=raw)
        body.pop("member_id", None)
        if "join_id" in body:
            body["join_id"] = uuid.uuid4().hex


def _without_unknown_fields_of_members(case: Case[Any]) -> None:
    """Those of all members count together, which a schema cannot say."""
    body: Any = case.body
    if isinstance(body, dict):
        known = ("generation_id", "task_offset_sums", "group_instance_id")
        for beat in body["members"].values():
            for name in [each for each in beat if each not in known]:
                del beat[name]


def _whole_numbers(value: Any) -> Any:
    """To JSON Schema, `1.0` is an integer; to this service it is not, and no schema can say so."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole_numbers(inner) for name, inner in value.items()}
    return [_whole_numbers(inner) for inner in value] if isinstance(value, list) else value


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    if case.method.upper() != case.operation.method.upper():
        case.body = NOT_SET  # an address may refuse a body as too large before it looks at the method
        return
    if _operation(case) == "leave":  # a call with wrong fields may leave, too, because a leave ignores unknown fields
        _leave_known_members_alone(case)
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    operation, number = _operation(case), next(_numbers)
    if case.body is not NOT_SET:
        case.body = _whole_numbers(case.body)
    if "wait_ms" in case.query:
        case.query["wait_ms"] = 20
    if operation == "process_heartbeat":
        _without_unknown_fields_of_members(case)
    if operation == "subscribe":
        _give_a_real_subscription(case)
    if number % 4 and _make_right(case, operation, number // 4):
        _made_right.add(case.id)


@schemathesis.hook
def after_call(context: HookContext, case: Case[Any], response: Response) -> None:
    if response.status_code < 300:
        _succeeded.add(_operation(case))
    elif case.id in _made_right:
        _refused.append(f"{_operation(case)}: {response.status_code} {response.text[:500]}")


def _operation(case: Case[Any]) -> str:
    name: str = case.operation.definition.raw["operationId"]
    return name


@atexit.register
def _write_answers() -> None:
    answers = {"succeeded": sorted(_succeeded), "refused": _refused}
    if ANSWERS_VARIABLE in os.environ:
        Path(os.environ[ANSWERS_VARIABLE]).write_text(json.dumps(answers), encoding="ascii")
