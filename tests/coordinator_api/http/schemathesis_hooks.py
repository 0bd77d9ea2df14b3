"""What schemathesis makes up reaches a group that exists, and members that it has; bodies of ours can be read.

schemathesis imports this file in its own process (`SCHEMATHESIS_HOOKS`). Requests that are meant to be wrong stay as
they are.
"""

from __future__ import annotations

import base64
import os
from typing import Any

import schemathesis
from schemathesis import Case, HookContext

from tests.coordinator_api.group_members import definition, subscription

GROUPS_VARIABLE = "KNOWN_GROUPS"
MEMBERS_VARIABLE = "KNOWN_MEMBERS"
"""Separated by commas; the first member is of the first group, and so on."""

PROCESS_ID = "9638c027-9105-4c73-b9ed-d0bfcb47a168"


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    operation = case.operation.definition.raw["operationId"]
    chosen = sum(case.id.encode())
    if chosen % 4 and case.meta.phase.name.name != "STATEFUL" and operation not in ("declare_group", "delete_group"):
        _address_known(case, chosen)
    if "wait_ms" in case.query:
        case.query["wait_ms"] = 20
    body = case.body
    if operation == "declare_group":
        case.body = definition()
    elif operation == "subscribe" and isinstance(body, dict):
        body["subscription"] = base64.b64encode(subscription(PROCESS_ID)).decode()
        body["session_timeout_ms"] = 30_000


def _address_known(case: Case[Any], chosen: int) -> None:
    groups = os.environ[GROUPS_VARIABLE].split(",")
    members = os.environ[MEMBERS_VARIABLE].split(",")
    for name, known in (("group", groups), ("member", members)):
        if name in case.path_parameters:
            case.path_parameters[name] = known[chosen % len(known)]
