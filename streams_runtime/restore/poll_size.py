"""How many records one poll of the restore consumer asks for.

Rule: a poll and what is done with its records should take a part of a pass only, so that a pass ends in time however
large the records are, and so that few of them are in memory at once; within that the more the better.
Differs from Kafka: its fetches are bounded in bytes, and restoring has threads of its own.
"""

from __future__ import annotations

_START = 1_000
_SMALLEST = 10
_POLLS_A_PASS = 4


class PollSize:
    """`largest`: of one poll. `pass_ms`: how long a pass may take."""

    __slots__ = ("_largest", "_pass_ms", "records")

    def __init__(self, largest: int, pass_ms: int) -> None:
        self._largest = largest
        self._pass_ms = pass_ms
        self.records = min(_START, largest)

    def took(self, asked: int, given: int, took_ms: int) -> None:
        """What became of a poll: `took_ms` with its records applied."""
        if took_ms * _POLLS_A_PASS > self._pass_ms * 2:
            if given * 2 >= asked:
                self.records = min(self._largest, max(_SMALLEST, given // 2))
        elif given >= asked and took_ms * _POLLS_A_PASS <= self._pass_ms:
            self.records = min(self._largest, max(self.records, asked * 2))
