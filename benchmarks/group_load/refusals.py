"""Answers of the coordinator that are no success, and what Kafka's members do about each."""

from __future__ import annotations

import json

from benchmarks.group_load.fleet_record import UNKNOWN_MEMBER_ID
from benchmarks.group_load.http_calls import Answer

TRY_AGAIN = frozenset({408, 425, 429, 502, 503, 504})
ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
REJOIN_AFTER = frozenset({UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS})


class Refused(Exception):
    """An answer that is no success. `code`: Kafka's name of the error."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(status, code)
        self.code = code


def error_code(answer: Answer) -> str:
    try:
        return str(json.loads(answer.body)["code"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP_{answer.status}"
