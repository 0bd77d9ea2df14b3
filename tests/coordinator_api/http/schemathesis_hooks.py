"""Calls that schemathesis means to be right find what they need: a group, a member of it, a document that holds
together. Calls that it means to be wrong stay as they are, and so does every fourth of the others.

schemathesis imports this file in its own process (`SCHEMATHESIS_HOOKS`). It counts the answers for the test, which
reads them from a file.
"""

from __future__ import annotations

import atexit
import base64
import itertools
import json
import os
import urllib.parse
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from schemathesis import Case, HookContext, Response
from schemathesis.core import NOT_SET

from tests.coordinator_api.group_members import definition, subscription
from tests.coordinator_api.held_rebalance import held_rebalance
from tests.coordinator_api.http.changed_documents import RECORDINGS
from tests.coordinator_api.http.told_to_schemathesis import ANSWERS_VARIABLE, DAMAGED, KNOWN_VARIABLE, LINKS, TOKEN

PROCESS_ID = "9638c027-9105-4c73-b9ed-d0bfcb47a168"
SESSION_MS = 1_800_000

_REBALANCES = [each for each in RECORDINGS if each["format"] == "rebalance/1"]
_FORECAST = [each for each in RECORDINGS if each.get("input", {}).get("future_process_id") is None]
"""Nobody knows what a member of an unknown version would send next."""

_SPOILS = frozenset(
    {
        "declare_group",
        "subscribe",
        "leave",
        "drain_group",
        "request_rebalance",
        "pause_group",
        "resume_group",
        "set_rejoin_grace",
        "end_rejoin_grace",
        "hold_rebalances",
        "end_hold",
        "approve_rebalance",
        "discard_rebalance",
        "end_instance_drain",
        "set_promotion",
        "end_promotion",
        "delete_group",
        "report_rebalance",
    }
)
"""They would change a group that other calls need as it is."""

_numbers = itertools.count()
_counts: Counter[tuple[str, str, int]] = Counter()
_refused: list[str] = []
_made_right: set[str] = set()
_addressed: set[str] = set()
"""Groups of calls that succeeded: a link leads from these to the next call, whose address must stay as it is."""


def _all_known() -> list[tuple[str, str]]:
    return [(group, member) for group, member in json.loads(os.environ[KNOWN_VARIABLE])]


def _known(number: int) -> tuple[str, str]:
    members = _all_known()
    return members[number % len(members)]


def _call(case: Case[Any], method: str, path: str, document: Mapping[str, object]) -> dict[str, Any]:
    """A call of our own, which has to succeed."""
    address = str(case.operation.base_url).rstrip("/") + path
    body = json.dumps(document).encode("ascii")
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    call = urllib.request.Request(address, body, headers, method=method)
    with urllib.request.urlopen(call, timeout=60) as answer:
        read: dict[str, Any] = json.loads(answer.read() or b"{}")
    return read


def _fresh_group(case: Case[Any]) -> str:
    group = f"fresh-{uuid.uuid4().hex[:12]}"
    _call(case, "PUT", f"/v1/groups/{group}", definition())
    return group


def _in_a_fresh_group(case: Case[Any], number: int) -> None:
    case.path_parameters["group"] = _fresh_group(case)


def _of_a_fresh_member(case: Case[Any], number: int) -> None:
    _in_a_fresh_group(case, number)
    joined = _call(case, "POST", f"/v1/groups/{case.path_parameters['group']}/subscriptions", _join())
    case.path_parameters["member"] = joined["member_id"]
    case.query.pop("group_instance_id", None)


def _in_a_fresh_group_with_a_member(case: Case[Any], number: int) -> None:
    _in_a_fresh_group(case, number)
    _call(case, "POST", f"/v1/groups/{case.path_parameters['group']}/subscriptions", _join())


def _of_a_held_rebalance(case: Case[Any], number: int) -> None:
    address = str(case.operation.base_url).rstrip("/")
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
        first, _ = held_rebalance(client)
    case.path_parameters["group"] = first.path.rpartition("/")[2]
    if "generation" in case.query:
        case.query["generation"] = 2


def _drain_all(case: Case[Any], number: int) -> None:
    _in_a_fresh_group(case, number)
    case.query.pop("instance", None)
    case.query.pop("member", None)


def _of_a_drained_member(case: Case[Any], number: int) -> None:
    _in_a_fresh_group(case, number)
    at = f"/v1/groups/{case.path_parameters['group']}"
    member_id = _call(case, "POST", f"{at}/subscriptions", _join())["member_id"]
    _call(case, "POST", f"{at}/drain?member={urllib.parse.quote(member_id)}", {})
    case.query.pop("instance", None)
    case.query["member"] = member_id


def _of_a_known_member(case: Case[Any], number: int) -> None:
    group, member = _known(number)
    places = {"group": group, "member": member, "generation": 1}
    case.path_parameters.update({name: places[name] for name in case.path_parameters})
    for name, value in (("min_generation", 1), ("wait_ms", 20), ("task", f"0_{number % 4}")):
        if name in case.query:
            case.query[name] = value
    case.query.pop("group_instance_id", None)


def _beat(case: Case[Any], number: int) -> None:
    _of_a_known_member(case, number)
    if isinstance(case.body, dict):
        case.body.update(generation_id=1, group_instance_id=None)


def _beat_of_a_process(case: Case[Any], number: int) -> None:
    _of_a_known_member(case, number)
    body: Any = case.body
    if isinstance(body, dict):
        body["members"][_known(number)[1]] = {"generation_id": 1}


def _repair(case: Case[Any], number: int) -> None:
    case.path_parameters["group"] = DAMAGED


def _join_a_fresh_group(case: Case[Any], number: int) -> None:
    _in_a_fresh_group(case, number)
    _give_a_real_subscription(case)


def _declare(case: Case[Any], number: int) -> None:
    case.path_parameters["group"] = f"declared-{uuid.uuid4().hex[:12]}"
    recorded = _REBALANCES[number % len(_REBALANCES)]["input"]
    case.body = definition() if number % 2 else {**recorded, "members": {}, "leader_process_id": None}


def _report(case: Case[Any], number: int) -> None:
    group = f"elsewhere-{uuid.uuid4().hex[:12]}"
    case.path_parameters["group"] = group
    case.body = {**_REBALANCES[number % len(_REBALANCES)], "group_id": group, "source": "kafka", "generation_id": 1}


def _send_a_recording(case: Case[Any], number: int) -> None:
    case.body = RECORDINGS[number % len(RECORDINGS)]


def _send_what_can_be_forecast(case: Case[Any], number: int) -> None:
    case.body = _FORECAST[number % len(_FORECAST)]
    case.query.pop("max_rounds", None)  # how many there may be depends on the size of the group


def _create_a_token(case: Case[Any], number: int) -> None:
    case.body = {"name": f"token-{uuid.uuid4().hex[:12]}", "right": "reader", "groups": "*", "expires": "P1D"}


def _revoke_a_fresh_token(case: Case[Any], number: int) -> None:
    name = f"token-{uuid.uuid4().hex[:12]}"
    _call(case, "POST", "/v1/tokens", {"name": name, "right": "reader"})
    case.path_parameters["name"] = name


_MAKE_RIGHT: Mapping[str, Callable[[Case[Any], int], None]] = {
    "declare_group": _declare,
    "delete_group": _in_a_fresh_group,
    "drain_group": _drain_all,
    "show_drain": _of_a_drained_member,
    "end_instance_drain": _of_a_drained_member,
    "set_promotion": _in_a_fresh_group,
    "end_promotion": _in_a_fresh_group,
    "request_rebalance": _in_a_fresh_group_with_a_member,
    "pause_group": _in_a_fresh_group,
    "resume_group": _in_a_fresh_group,
    "set_rejoin_grace": _in_a_fresh_group,
    "end_rejoin_grace": _in_a_fresh_group,
    "hold_rebalances": _in_a_fresh_group,
    "end_hold": _in_a_fresh_group,
    "approve_rebalance": _of_a_held_rebalance,
    "discard_rebalance": _of_a_held_rebalance,
    "show_hold": _of_a_known_member,
    "describe_group": _of_a_known_member,
    "subscribe": _join_a_fresh_group,
    "fetch_assignment": _of_a_known_member,
    "heartbeat": _beat,
    "process_heartbeat": _beat_of_a_process,
    "leave": _of_a_fresh_member,
    "list_rebalances": _of_a_known_member,
    "export_log": _of_a_known_member,
    "repair_log": _repair,
    "show_rebalance": _of_a_known_member,
    "explain_rebalance": _of_a_known_member,
    "report_rebalance": _report,
    "assign_once": _send_a_recording,
    "forecast_once": _send_what_can_be_forecast,
    "create_token": _create_a_token,
    "revoke_token": _revoke_a_fresh_token,
}


def _join() -> dict[str, Any]:
    raw = base64.b64encode(subscription(PROCESS_ID)).decode("ascii")
    return {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS, "subscription": raw}


def _give_a_real_subscription(case: Case[Any]) -> None:
    """What a schema cannot say: bytes in a format of Kafka, session timeouts within this service's settings, a join_id
    that nobody else has.
    """
    body: Any = case.body
    if isinstance(body, dict):
        body.update(_join())
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


_SAME_GROUP = {"group": "$request.path.group"}
_SAME_MEMBER = {**_SAME_GROUP, "member": "$request.path.member"}
_JOINED_MEMBER = {**_SAME_GROUP, "member": "$response.body#/member_id"}
_FIRST_LISTED = {**_SAME_GROUP, "generation": "$response.body#/rebalances/0/generation_id"}
_FETCH = {**_JOINED_MEMBER, "min_generation": "$response.body#/generation_id"}
_OF_THE_GROUP: Mapping[str, Mapping[str, object]] = {
    name: {"parameters": _SAME_GROUP} for name in ("list_rebalances", "describe_group")
}
_NEXT_CALLS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "declare_group": {
        **{name: {"parameters": _SAME_GROUP} for name in ("subscribe", "drain_group", "delete_group")},
        **_OF_THE_GROUP,
    },
    "subscribe": {
        "fetch_assignment": {"parameters": _FETCH},
        "heartbeat": {"parameters": _JOINED_MEMBER, "requestBody": {"generation_id": 0}},
        "leave": {"parameters": _JOINED_MEMBER},
        **_OF_THE_GROUP,
    },
    "fetch_assignment": {
        "heartbeat": {
            "parameters": _SAME_MEMBER,
            "requestBody": {"generation_id": "$response.body#/generation_id"},
        },
        "leave": {"parameters": _SAME_MEMBER},
        **_OF_THE_GROUP,
    },
    "list_rebalances": {name: {"parameters": _FIRST_LISTED} for name in ("show_rebalance", "explain_rebalance")},
}
"""By operation: the calls that may follow it, and what they take from its request and its answer."""


@schemathesis.hook
def before_load_schema(context: HookContext, raw_schema: dict[str, Any]) -> None:
    """Add OpenAPI links, along which schemathesis walks."""
    for methods in raw_schema["paths"].values():
        for operation in methods.values():
            links = {
                name: {"operationId": name, **taken}
                for name, taken in _NEXT_CALLS.get(operation["operationId"], {}).items()
            }
            for status in {"200", "201"} & operation["responses"].keys() if links else ():
                operation["responses"][status]["links"] = links


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    if case.method.upper() != case.operation.method.upper():
        case.body = NOT_SET  # an address may refuse a body as too large before it looks at the method
        return
    operation = _operation(case)
    if operation in _SPOILS and case.path_parameters.get("group") in [group for group, _ in _all_known()]:
        case.path_parameters["group"] = "spared"  # schemathesis has read a known group's id in some answer
    if operation in _SPOILS and case.path_parameters.get("group") == DAMAGED:
        case.path_parameters["group"] = "spared"
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if operation == "repair_log" and "execute" in case.query:
        case.query["execute"] = False
    stateful = case.meta.phase.name.value == "stateful"
    if case.body is not NOT_SET:
        case.body = _whole_numbers(case.body)
    if "wait_ms" in case.query:
        case.query["wait_ms"] = 2_000 if stateful else 20
    if operation == "process_heartbeat":
        _without_unknown_fields_of_members(case)
    number = next(_numbers)
    if stateful and _is_linked(case):
        if operation == "subscribe":
            _give_a_real_subscription(case)
    elif operation in _MAKE_RIGHT and (stateful or number % 4):
        _MAKE_RIGHT[operation](case, number // 4)
        _made_right.add(case.id)
    elif operation == "subscribe":
        _give_a_real_subscription(case)


def _is_linked(case: Case[Any]) -> bool:
    """Whether a call that succeeded has led here."""
    return case.path_parameters.get("group") in _addressed


@schemathesis.hook
def after_call(context: HookContext, case: Case[Any], response: Response) -> None:
    if case.meta is None:
        return
    made_right = case.id in _made_right
    phase = case.meta.phase.name.value
    _counts[_operation(case), LINKS if phase == "stateful" and not made_right else phase, response.status_code] += 1
    if response.status_code < 300:
        _addressed.add(str(case.path_parameters.get("group")))
    if made_right and response.status_code >= 300:
        _refused.append(f"{_operation(case)}: {response.status_code} {response.text[:500]}")


def _operation(case: Case[Any]) -> str:
    name: str = case.operation.definition.raw["operationId"]
    return name


@atexit.register
def _write_answers() -> None:
    """`counts`: rows of operation, phase, status and how many. `refused`: calls that were made right and refused."""
    answers = {"counts": [[*key, count] for key, count in sorted(_counts.items())], "refused": _refused}
    if ANSWERS_VARIABLE in os.environ:
        Path(os.environ[ANSWERS_VARIABLE]).write_text(json.dumps(answers), encoding="ascii")
