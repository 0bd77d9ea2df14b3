"""Recorded rebalances for the tests of histories, and small changes to them."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assignor.protocol.consumer_protocol import decode_subscription, encode_subscription
from assignor.protocol.subscription_info import decode_subscription_info, encode_subscription_info
from assignor.types import ProcessId
from rebalance_analysis.history import PastRebalance
from rebalance_analysis.rerun import run
from tests.recorded import documents


def recorded(name: str) -> list[dict[str, Any]]:
    """The rounds of one of the recordings, as documents."""
    return documents(f"recordings/{name}.jsonl.gz")


def past_rebalances(lines: list[dict[str, Any]]) -> list[PastRebalance]:
    return [PastRebalance(line["generation_id"], run(line)) for line in lines]


def short(process: ProcessId | None) -> str | None:
    return None if process is None else str(process)[:8]


def with_info(line: dict[str, Any], client_id: str, **changes: object) -> dict[str, Any]:
    """The same round, but members whose client id begins so say other things: fields of SubscriptionInfo."""
    members = {
        member_id: {**member, "subscription": _changed(member["subscription"], changes)}
        if member["client_id"].startswith(client_id)
        else member
        for member_id, member in line["input"]["members"].items()
    }
    return with_input(line, members=members)


def without_members(line: dict[str, Any], client_id: str) -> dict[str, Any]:
    """The same round without the members whose client id begins so."""
    members = {
        member_id: member
        for member_id, member in line["input"]["members"].items()
        if not member["client_id"].startswith(client_id)
    }
    return with_input(line, members=members)


def with_input(line: dict[str, Any], **changes: object) -> dict[str, Any]:
    """The same round with other fields in its input, and nothing recorded of its output."""
    return {**{key: value for key, value in line.items() if key != "output"}, "input": {**line["input"], **changes}}


def _changed(subscription: str, changes: Mapping[str, Any]) -> str:
    decoded = decode_subscription(base64.b64decode(subscription))
    info = replace(decode_subscription_info(decoded.user_data or b""), **changes)
    return base64.b64encode(encode_subscription(replace(decoded, user_data=encode_subscription_info(info)))).decode()
